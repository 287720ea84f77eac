package mistake

import (
	"strings"
	"testing"
)

func TestMistakes(t *testing.T) {
	for _, m := range All() {
		t.Run(m.Name, func(t *testing.T) {
			r, err := m.Run(t.Context(), Options{Device: testDevice(t)})
			if err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			r.Fprint(&text)
			t.Log("\n" + text.String())
			if err := r.Err(); err != nil {
				t.Error(err)
			}
		})
	}
}
