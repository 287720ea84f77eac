// Printed forms of the transition table and of a step's attributes.

package qpstate

import (
	"fmt"
	"strings"
)

// Value returns the field of a that bit names, with its unit and meaning. For
// MaskTimeout it returns, for example, "14 (67.1ms)". An unknown bit gives "?".
func (a *Attr) Value(bit Mask) string {
	switch bit {
	case MaskState:
		return a.State.Name()
	case MaskCurState:
		return a.CurState.Name()
	case MaskEnSQDAsyncNotify:
		return fmt.Sprint(a.EnSQDAsyncNotify)
	case MaskAccessFlags:
		return a.Access.Name()
	case MaskPKeyIndex:
		return fmt.Sprint(a.PKeyIndex)
	case MaskPort:
		return fmt.Sprint(a.PortNum)
	case MaskQKey:
		return fmt.Sprintf("%#08x", a.QKey)
	case MaskAV:
		return a.AH.String()
	case MaskPathMTU:
		return fmt.Sprint(a.PathMTU.Bytes())
	case MaskTimeout:
		return code(a.Timeout, ACKTimeout(a.Timeout) == 0, "forever", ACKTimeout(a.Timeout))
	case MaskRetryCnt:
		return fmt.Sprint(a.RetryCnt)
	case MaskRNRRetry:
		if a.RNRRetry == 7 {
			return "7 (forever)"
		}
		return fmt.Sprint(a.RNRRetry)
	case MaskRQPSN:
		return fmt.Sprintf("%#06x", a.RQPSN)
	case MaskMaxRdAtomic:
		return fmt.Sprint(a.MaxRdAtomic)
	case MaskAltPath:
		return a.AltAH.String()
	case MaskMinRNRTimer:
		return code(a.MinRNRTimer, false, "", RNRTimer(a.MinRNRTimer))
	case MaskSQPSN:
		return fmt.Sprintf("%#06x", a.SQPSN)
	case MaskMaxDestRdAtomic:
		return fmt.Sprint(a.MaxDestRdAtomic)
	case MaskPathMigState:
		return a.PathMigState.String()
	case MaskCap:
		return fmt.Sprintf("%+v", a.Cap)
	case MaskDestQPN:
		return fmt.Sprintf("%#06x", a.DestQPN)
	case MaskRateLimit:
		return fmt.Sprintf("%d kbit/s", a.RateLimit)
	}
	return "?"
}

// code writes a timer's code with the time that it stands for. No device takes a code above 31.
func code(c uint8, special bool, word string, d fmt.Stringer) string {
	switch {
	case c > 31:
		word = "above 31"
	case !special:
		word = d.String()
	}
	return fmt.Sprintf("%d (%s)", c, word)
}

// Describe lists the fields that mask names as "NAME=value", in the order of the bits.
// It leaves out MaskState.
func (a *Attr) Describe(mask Mask) string {
	var parts []string
	for _, bit := range (mask &^ MaskState).Bits() {
		parts = append(parts, bitName(bit)+"="+a.Value(bit))
	}
	return strings.Join(parts, " ")
}

// String returns the path, on RoCE for example
// "dgid ::ffff:10.0.0.2 sgid_index 1 port 1 hop_limit 64".
func (a AHAttr) String() string {
	if a.IsGlobal {
		return fmt.Sprintf("dgid %s sgid_index %d port %d hop_limit %d", a.GRH.DGID, a.GRH.SGIDIndex, a.PortNum, a.GRH.HopLimit)
	}
	return fmt.Sprintf("dlid %#x sl %d port %d", a.DLID, a.SL, a.PortNum)
}

// String returns the step with its mask, values and error:
// "RC RESET→INIT mask 0x39 (STATE|…): ACCESS_FLAGS=…".
func (s Step) String() string {
	text := fmt.Sprintf("%s %s mask %#x (%s)", s.Type.Name(), s.Name(), uint32(s.Mask), s.Mask.Name())
	if values := s.Attr.Describe(s.Mask); values != "" {
		text += ": " + values
	}
	if s.Err != nil {
		text += ": refused: " + s.Err.Error()
	}
	return text
}
