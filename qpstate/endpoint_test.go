package qpstate

import "testing"

// TestBothEndsConnectAlike: what one end sends is what the other expects.
func TestBothEndsConnectAlike(t *testing.T) {
	a := Endpoint{QPN: 0x11, PSN: 100, MTU: MTU4096, InitiatorDepth: 16, ResponderResources: 1}
	b := Endpoint{QPN: 0x22, PSN: 200, MTU: MTU1024, InitiatorDepth: 4, ResponderResources: 8}
	way := AHAttr{IsGlobal: true, PortNum: 1, GRH: GRH{HopLimit: 64}}
	aRTR, aRTS := a.Connect(b, way)
	bRTR, bRTS := b.Connect(a, way)
	if aRTR.PathMTU != MTU1024 || bRTR.PathMTU != MTU1024 || aRTR.DestQPN != 0x22 || bRTR.DestQPN != 0x11 || aRTR.AH != way {
		t.Errorf("RTR: %+v\n%+v", aRTR, bRTR)
	}
	if aRTR.RQPSN != bRTS.SQPSN || bRTR.RQPSN != aRTS.SQPSN || aRTS.SQPSN != 100 {
		t.Errorf("packet numbers: %+v\n%+v", aRTS, bRTS)
	}
	if aRTS.MaxRdAtomic != 8 || bRTR.MaxDestRdAtomic != 8 || bRTS.MaxRdAtomic != 1 || aRTR.MaxDestRdAtomic != 1 {
		t.Errorf("READs in flight: %d of %d, %d of %d", aRTS.MaxRdAtomic, bRTR.MaxDestRdAtomic, bRTS.MaxRdAtomic, aRTR.MaxDestRdAtomic)
	}
}
