package run

import (
	"strings"
	"testing"
)

func TestNetworks(t *testing.T) {
	for text, want := range map[string]string{"none": "none", "any": "0.0.0.0/0,::/0", "10.1.2.3/16, fd00::/8": "10.1.0.0/16,fd00::/8"} {
		var n Networks
		if n.String() != "" {
			t.Errorf("unset: %v", n)
		}
		if err := n.Set(text); err != nil || n == nil || n.String() != want {
			t.Errorf("%s: %v, %v", text, &n, err)
		}
	}
	for _, text := range []string{"", "10.1.2.3", "10.0.0.0/33", "any,10.0.0.0/8"} {
		var n Networks
		if err := n.Set(text); err == nil || !strings.Contains(err.Error(), "; try: one such as 10.1.0.0/16, or any, or none") || n != nil {
			t.Errorf("%q: %v, %v", text, n, err)
		}
	}
}
