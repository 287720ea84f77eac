//go:build cabi

package cabi

import (
	"strings"
	"testing"
)

// TestDevices runs the programs that list devices.
func TestDevices(t *testing.T) {
	list := onSoft(t, "ibv_devices")
	list.succeeds()
	if last := list.output()[len(list.output())-1]; strings.Fields(last)[0] != "soft0" {
		t.Errorf("ibv_devices: last line %q", last)
	}
	info := onSoft(t, "ibv_devinfo", "-v")
	info.succeeds()
	info.has(t, "hca_id:\tsoft0", "PORT_ACTIVE (4)", "active_mtu:\t\t4096 (5)", "link_layer:\t\tEthernet", "GID[  1]:\t\t::ffff:127.")
}

// has checks that the output has these texts.
func (p *program) has(t *testing.T, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(p.text(), text) {
			t.Errorf("%q printed no %q", p.command, text)
		}
	}
}
