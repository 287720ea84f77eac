package host

import (
	"net"
	"testing"
)

func TestAddresses(t *testing.T) {
	list, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, ifi := range list {
		all, err := Addresses(ifi.Name)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(ifi.Name, all)
		for _, a := range all {
			if a.Is4In6() || a.Is6() && a.IsLinkLocalUnicast() && a.Zone() != ifi.Name {
				t.Errorf("%s: %v", ifi.Name, a)
			}
			got, err := InterfaceOf(a)
			if err != nil || got.Name != ifi.Name && !a.IsLoopback() {
				t.Errorf("interface of %v: %v, %v", a, got, err)
			}
		}
	}
	if _, err := Addresses("none such"); err == nil {
		t.Error("no error for an interface that does not exist")
	}
}

func TestPathMTU(t *testing.T) {
	for _, c := range [][2]int{
		{0, 0}, {335, 0}, {336, 256}, {591, 256}, {592, 512}, {1400, 1024}, {1500, 1024},
		{4175, 2048}, {4176, 4096}, {9000, 4096}, {65536, 4096},
	} {
		if got := PathMTU(c[0]); got != c[1] {
			t.Errorf("MTU %d: %d, want %d", c[0], got, c[1])
		}
	}
}
