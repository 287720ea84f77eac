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
