package fails

import "testing"

func TestPasses(t *testing.T) { t.Log("silence") }

func TestFails(t *testing.T) {
	t.Run("it's a case", func(t *testing.T) {
		for i := range 100 {
			t.Log("line", i)
		}
		t.Error("the reason")
	})
	t.Run("other", func(*testing.T) {})
}
