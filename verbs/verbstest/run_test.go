// Tests of the judgment of cases, and of the table of results.

package verbstest

import (
	"slices"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	bad := outcome{findings: []string{"it is wrong"}}
	none := outcome{findings: []string{"not there"}, unsupported: true}
	for name, c := range map[string]struct {
		o     outcome
		quirk string
		right bool
		word  string
	}{
		"passes":                        {outcome{}, "", true, passed},
		"fails":                         {bad, "", false, failed},
		"fails as listed":               {bad, "it is known", true, quirky},
		"passes though listed":          {outcome{}, "it is known", false, stale},
		"unsupported as listed":         {none, "no such thing", true, unsupported},
		"unsupported and not listed":    {none, "", false, failed},
		"supported though listed as no": {outcome{}, "no such thing", false, stale},
	} {
		if v := judge(c.o, c.quirk); v.right != c.right || v.word != c.word {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestTableFaults(t *testing.T) {
	cases := []Case{{Group: "a", Name: "b"}, {Group: "a", Name: "b"}}
	faults := tableFaults(cases, map[string]string{"a/c": "why", "a/b": ""})
	if len(faults) != 3 {
		t.Errorf("got %q", faults)
	}
	if faults := tableFaults(Cases(), nil); len(faults) != 0 {
		t.Errorf("the table: %q", faults)
	}
}

func TestTable(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("VM_OUT", dir)
	for _, r := range []Results{
		{Device: "a", Cases: []Result{{ID: "x/1", Word: passed}, {ID: "x/2", Word: quirky, Reason: "it is so"}, {ID: "x/3", Word: failed}}},
		{Device: "b", Cases: []Result{{ID: "x/1", Word: unsupported, Reason: "it is so"}, {ID: "x/2", Word: stale, Reason: "why"}}},
	} {
		if err := r.save(); err != nil {
			t.Fatal(err)
		}
	}
	all, err := ReadResults(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	wrong := FprintTable(&out, all)
	want := `CASE  a          b
x/1   pass       unsupported (1)
x/2   quirk (1)  FAIL: listed as a quirk, but passes (2)
x/3   FAIL       not run
(1) it is so
(2) why
a: 3 cases: 1 pass, 1 quirk, 1 FAIL
b: 2 cases: 1 unsupported, 1 FAIL: listed as a quirk, but passes
`
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", &out, want)
	}
	if want := []string{"b: x/2: FAIL: listed as a quirk, but passes", "a: x/3: FAIL", "b: x/3: not run"}; !slices.Equal(wrong, want) {
		t.Errorf("wrong: %q", wrong)
	}
	if _, err := ReadResults(t.TempDir()); err == nil {
		t.Error("ReadResults of an empty directory succeeded")
	}
}
