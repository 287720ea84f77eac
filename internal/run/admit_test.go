package run

import (
	"testing"

	"github.com/rawverbs/rawverbs/internal/admission"
	"github.com/rawverbs/rawverbs/internal/budget"
)

func TestLimits(t *testing.T) {
	half := budget.Available() / 2
	o := ServerOptions{MaxClients: 7}
	if l := o.limits(); l.Clients != 7 || l.ClientsPerAddress != 4 || l.Memory < half*9/10 || l.Memory > half*11/10 || l.MemoryPerAddress != l.Memory-l.Memory/2 || !l.SharedPlaces || !l.SharedMemory || l.Waiting != admission.Waiting {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 1, MaxMemory: 1 << 30, Once: true}
	if l := o.limits(); l != (admission.Limits{Clients: 1, ClientsPerAddress: 1, Memory: 1 << 30, MemoryPerAddress: 1 << 29, SharedPlaces: true, SharedMemory: true, Patience: admission.Patience}) {
		t.Errorf("%+v", l)
	}
	o = ServerOptions{MaxClients: 10, MaxMemory: 1 << 30, MaxMemoryPerAddress: 1 << 20, MaxClientsPerAddress: 2}
	if l := o.limits(); l != (admission.Limits{Clients: 10, ClientsPerAddress: 2, Memory: 1 << 30, MemoryPerAddress: 1 << 20, Waiting: admission.Waiting, Patience: admission.Patience}) {
		t.Errorf("%+v", l)
	}
}
