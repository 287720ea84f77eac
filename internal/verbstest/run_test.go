// Tests of the judging: what fails a run, and what does not.

package verbstest

import "testing"

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
