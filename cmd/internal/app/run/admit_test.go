package run

import (
	"testing"

	"github.com/rawverbs/rawverbs/internal/admission"
)

func TestLimits(t *testing.T) {
	o := ServerOptions{MaxClients: 7}
	if l := o.limits(1 << 30); l != (admission.Limits{Clients: 7, ClientsPerAddress: 4, Memory: 1 << 30, MemoryPerAddress: 1 << 29, SharedPlaces: true, SharedMemory: true, Waiting: admission.Waiting, Patience: admission.Patience}) {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 1, Once: true}
	if l := o.limits(1 << 30); l != (admission.Limits{Clients: 1, ClientsPerAddress: 1, Memory: 1 << 30, MemoryPerAddress: 1 << 29, SharedPlaces: true, SharedMemory: true, Patience: admission.Patience}) {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 10, MaxMemoryPerAddress: 1 << 20, MaxClientsPerAddress: 2}
	if l := o.limits(1 << 30); l != (admission.Limits{Clients: 10, ClientsPerAddress: 2, Memory: 1 << 30, MemoryPerAddress: 1 << 20, Waiting: admission.Waiting, Patience: admission.Patience}) {
		t.Errorf("%+v", l)
	}
}
