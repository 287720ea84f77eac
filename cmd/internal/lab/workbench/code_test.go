package workbench

import (
	"strings"
	"testing"
)

// TestElementsInC shows which key and which address an element has in a C program.
func TestElementsInC(t *testing.T) {
	key := Num(0x77)
	for _, test := range []struct {
		access []string
		closed bool
		lkey   *Num
		want   string
	}{
		{nil, false, nil, ".addr = (uintptr_t)client_own_bytes, .length = 8, .lkey = client_own->lkey"},
		{nil, false, &key, ".addr = (uintptr_t)client_own_bytes, .length = 8, .lkey = 0x77"},
		{nil, true, nil, ".addr = (uintptr_t)client_own_bytes, .length = 8, .lkey = client_own_lkey"},
		{nil, true, &key, ".addr = (uintptr_t)client_own_bytes, .length = 8, .lkey = 0x77"},
		{[]string{"ZERO_BASED"}, false, nil, ".addr = 0, .length = 8, .lkey = client_own->lkey"},
		{[]string{"ZERO_BASED"}, true, nil, ".addr = 0, .length = 8, .lkey = client_own_lkey"},
		{[]string{"ZERO_BASED"}, true, &key, ".addr = 0, .length = 8, .lkey = 0x77"},
	} {
		actions := script(objects("client"), toInit("client"), reg("client", "own", 64, append(test.access, "LOCAL_WRITE")...))
		if test.closed {
			actions = append(actions, closing("client", "own")...)
		}
		s := played(t, Setup{}, script(actions, postRecv("client", theQP, WR{ID: 1, SGL: []SGE{{MR: "own", Length: 8, LKey: test.lkey}}})))
		if code := strings.Join(s.results[len(s.results)-1].Code.C, "\n"); !strings.Contains(code, test.want) {
			t.Errorf("%v, closed %v, want %s in\n%s", test.access, test.closed, test.want, code)
		}
	}
}

// TestProgramOfAFullQueue shows that a program does not fail where a device frees places earlier than the laboratory.
func TestProgramOfAFullQueue(t *testing.T) {
	for posts, differs := range map[int]bool{fewSends: false, fewSends + 1: true} {
		s := played(t, Setup{}, script(connect(eitherQuiet, nil, nil), post(writes(1, posts)...)))
		for language, fails := range map[string]string{"c": "return differences != 0", "go": "if differences != 0"} {
			text, err := s.Program(language)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(text, fails) == differs || strings.Contains(text, "frees places at the ACK") != differs {
				t.Errorf("%d posts: the program in %s fails if a result differs: %v", posts, language, !differs)
			}
		}
	}
}
