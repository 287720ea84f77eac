package verbs

import (
	"os"
	"strings"
	"testing"
)

// page returns a page of the documentation. Each run of white space is one space.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("../" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// TestPostingAllocatesNothingFromReusedSlices checks that posting allocates as the README says.
func TestPostingAllocatesNothingFromReusedSlices(t *testing.T) {
	d, _ := newPaperDevice()
	pd := must[*PD](t)(d.AllocPD())
	cq := must[*CQ](t)(d.CreateCQ(CQInit{Depth: 1}))
	qp := must[*QP](t)(pd.CreateQP(QPInit{Type: RC, SendCQ: cq, RecvCQ: cq}))
	wrs := []SendWR{{Opcode: OpSend, SGL: []SGE{{Length: 8}}}}
	if n := testing.AllocsPerRun(100, func() { _ = qp.PostSend(wrs) }); n != 0 {
		t.Errorf("%v allocations to post slices that are reused", n)
	}
	if n := testing.AllocsPerRun(100, func() { _ = qp.PostSend([]SendWR{{Opcode: OpSend, SGL: []SGE{{Length: 8}}}}) }); n == 0 {
		t.Error("posting a literal allocates nothing: the README and QP.PostSend may say so")
	}
	if !strings.Contains(page(t, "README.md"), "posting from slices that are reused allocates nothing") {
		t.Error("README.md does not say when posting allocates nothing")
	}
}

// TestMemoryPageSpeaksOfForkAndRaces: os/exec with CLONE_NEWUSER forks and copies the pages.
func TestMemoryPageSpeaksOfForkAndRaces(t *testing.T) {
	text := page(t, "docs/memory-and-gc.md")
	for _, want := range []string{
		"## Fork", "CLONE_NEWUSER", "C code", "ibv_fork_init", "MADV_DONTFORK", "RDMAV_FORK_SAFE", "copy-on-fork on",
		"## The race detector", "RegMR", "soft0",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/memory-and-gc.md lacks %q", want)
		}
	}
	for _, name := range []string{"docs/memory-and-gc.md", "verbs/refused.txt"} {
		if strings.Contains(page(t, name), "Go program cannot fork without exec") {
			t.Errorf("%s says that no Go program copies its pages", name)
		}
	}
}
