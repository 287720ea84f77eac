package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const header = `
/* int ibv_commented(void); */
#define ibv_macro(a) \
	ibv_expanded(a)
extern "C" {
struct ops { int (*ibv_member)(struct ibv_qp *qp); };
int ibv_one(struct ibv_qp *qp,
	    int (*ibv_callback)(int));
static inline int ibv_two(struct ibv_qp *qp)
{
	return ibv_called(qp);
}
struct ibv_mr *ibv_three (struct ibv_pd *pd);
enum ibv_type { IBV_A };
int ___ibv_hidden(void);
static inline int ___ibv_two(struct ibv_qp *qp, int more) { return 0; }
}
`

func TestDeclared(t *testing.T) {
	got := declared(header)
	want := map[string]string{
		"ibv_one":   "int ibv_one(struct ibv_qp*qp,int(*ibv_callback)(int))",
		"ibv_two":   "int ibv_two(struct ibv_qp*qp,int more)", // the function that the macro calls
		"ibv_three": "struct ibv_mr*ibv_three(struct ibv_pd*pd)",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestImplements(t *testing.T) {
	got := slices.Sorted(maps.Keys(implements(`
// Post posts. It is not ibv_other(x).
//
// Implements: int ibv_one(struct ibv_qp *qp, struct ibv_wr *wr),
// struct ibv_mr *ibv_two(struct ibv_pd *pd),
// ibv_three, ibv_four
func Post() { ibv_five(1) }

// ibv_six(x)
`)))
	if want := []string{"ibv_four", "ibv_one", "ibv_three", "ibv_two"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestParseRefused(t *testing.T) {
	got, err := parseRefused("# why\nibv_a ibv_b: for\n\ta reason\n\nibv_c: another\n")
	if err != nil || got["ibv_a"] != "for a reason" || got["ibv_b"] != got["ibv_a"] || got["ibv_c"] != "another" || len(got) != 3 {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []string{"ibv_a", "ibv_a:", "ibv_a: x\nibv_a: y", "  on and on"} {
		if _, err := parseRefused(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestRun runs the command on small directories, one per fault.
func TestRun(t *testing.T) {
	const one, two = "// Implements: int ibv_one(struct ibv_qp *qp, int (*ibv_callback)(int)),\n", "// int ibv_two(struct ibv_qp *qp, int more)\n"
	for name, c := range map[string]struct {
		code, refused string
		ok            bool
		says          string
	}{
		"complete":                {one + two, "ibv_three: why\n", true, "3 functions: 2 wrapped, 1 refused, 0 missing: 100.0 %"},
		"too little":              {one, "ibv_three: why\n", false, "missing  ibv_two"},
		"both":                    {one + two, "ibv_three ibv_two: why\n", false, "ibv_two is refused, but wrapped in x.go:2"},
		"wrapped, but undeclared": {one + two + "// int ibv_nine(void)\n", "ibv_three: why\n", false, "ibv_nine is named"},
		"refused, but undeclared": {one + two, "ibv_three ibv_nine: why\n", false, "ibv_nine is named"},
		"the reason is shown":     {one + two, "ibv_three: why not\n", true, "why not"},
		"a test does not count":   {"package x\n", "ibv_three: why\n", false, "missing  ibv_one"},
		"without a prototype":     {one + "// ibv_two\n", "ibv_three: why\n", false, "ibv_two has another prototype in verbs.h: int ibv_two(struct ibv_qp*qp,int more)"},
		"another prototype":       {one + "// int ibv_two(struct ibv_qp *qp)\n", "ibv_three: why\n", false, "ibv_two has another prototype in verbs.h"},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"verbs.h": header, "x.go": c.code, "x_test.go": "// Implements: ibv_one\n", "refused.txt": c.refused} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		ok, err := run(&out, filepath.Join(dir, "verbs.h"), dir, filepath.Join(dir, "refused.txt"))
		if err != nil || ok != c.ok || !strings.Contains(out.String(), c.says) {
			t.Errorf("%s: %v, %v\n%s", name, ok, err, out.String())
		}
	}
	if _, err := run(&strings.Builder{}, "no-such-header", ".", "x"); err == nil || !strings.Contains(err.Error(), "libibverbs-dev") {
		t.Errorf("without a header: %v", err)
	}
}
