package run

import (
	"context"
	"strings"
	"testing"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/testdevice"
	"github.com/rawverbs/rawverbs/internal/testkit"
	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

func TestLimits(t *testing.T) {
	half := admission.Available() / 2
	o := ServerOptions{MaxClients: 7}
	if l := o.limits(); l.Clients != 7 || l.ClientsPerAddress != 4 || l.Memory < half*9/10 || l.Memory > half*11/10 || l.MemoryPerAddress != l.Memory-l.Memory/2 || !l.SharedPlaces || !l.SharedMemory || l.Strict {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 1, MaxMemory: 1 << 30, Once: true}
	if l := o.limits(); l != (admission.Limits{Clients: 1, ClientsPerAddress: 1, Memory: 1 << 30, MemoryPerAddress: 1 << 29, SharedPlaces: true, SharedMemory: true, Strict: true}) {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 10, MaxMemory: 1 << 30, MaxMemoryPerAddress: 1 << 20, MaxClientsPerAddress: 2}
	if l := o.limits(); l != (admission.Limits{Clients: 10, ClientsPerAddress: 2, Memory: 1 << 30, MemoryPerAddress: 1 << 20}) {
		t.Errorf("%+v", l)
	}
}

// TestLateHandshake checks that the error of a late client has the limit, and no remedy that changes
// nothing.
func TestLateHandshake(t *testing.T) {
	l, err := rc.Listen(t.Context(), "127.0.0.1:0", rc.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dev := testdevice.Open(t)
	var late *oob.TimeoutError
	for limit := testkit.Moment; late == nil; limit *= 2 { // until both ends have come to the exchange within the limit
		client, err := oob.Dial(t.Context(), l.Addr().String(), oob.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		go client.Hello(t.Context(), oob.Hello{Role: oob.RoleClient})
		in, err := l.Accept(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Hello(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeoutCause(testkit.Context(t), limit, errHandshake)
		defer cancel()
		_, err = in.Connect(ctx, rc.Config{Device: dev})
		err = lateHandshake(err)
		want := "within 15s of its hello; try: again, or a host with less load"
		if err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "longer timeout") {
			t.Fatalf("%v; want %q", err, want)
		}
		errors.As(err, &late)
	}
}
