package workbench

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// shapes are the Go types behind the interfaces of web/src/api.ts.
var shapes = []any{Setup{}, File{}, opened{}, Action{}, Cap{}, AV{}, WR{}, SGE{}, Remote{}, Bind{}, Flush{}, Snapshot{}, HostView{}, ToldView{}, RegionView{},
	ObjectView{}, MRView{}, CQView{}, SRQView{}, AHView{}, MWView{}, QPView{}, AttrView{}, Source{}, PSNView{}, TimerView{}, SendView{}, RecvView{}, SGEView{},
	PacketView{}, WhyView{}, PacketDetail{}, FieldView{}, ICRCView{}, Event{}, Result{}, Code{}, Completion{}, Refusal{}, TransitionRefusal{}, GoalState{},
	Tables{}, BitRow{}, MoveRow{}, StatusRow{}, LessonView{}, MistakeView{}, ExamView{}}

var (
	interfaceText = regexp.MustCompile(`(?s)export interface (\w+)(?:<T>)? \{\n(.*?)\n\}`)
	memberText    = regexp.MustCompile(`(?m)^  (\w+)(\??): `)
	methodText    = regexp.MustCompile(`(?m)^  (\w+)\(`)
)

// TestTypeScript compares the names in web/src/api.ts, and which of them may be missing, with the Go
// code.
func TestTypeScript(t *testing.T) {
	text, err := os.ReadFile("../../../../web/src/api.ts")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]map[string]bool{} // whether each name may be missing
	for _, m := range interfaceText.FindAllStringSubmatch(string(text), -1) {
		members := map[string]bool{}
		for _, n := range memberText.FindAllStringSubmatch(m[2], -1) {
			members[n[1]] = n[2] == "?"
		}
		for _, n := range methodText.FindAllStringSubmatch(m[2], -1) {
			members[n[1]] = false
		}
		declared[m[1]] = members
	}
	compare := func(name string, want map[string]bool) {
		got, ok := declared[name]
		if !ok {
			t.Errorf("api.ts has no interface %s", name)
			return
		}
		delete(declared, name)
		if !maps.Equal(got, want) {
			t.Errorf("interface %s has %v, want %v", name, got, want)
		}
	}
	for _, shape := range shapes {
		typ := reflect.TypeOf(shape)
		want := map[string]bool{}
		for i := range typ.NumField() {
			name, options, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if name != "" {
				want[name] = options == "omitempty"
			}
		}
		compare(strings.ToUpper(typ.Name()[:1])+typ.Name()[1:], want)
	}
	compare("Reply", map[string]bool{"value": true, "error": true})
	functions := map[string]bool{}
	for _, name := range CallNames() {
		functions[name] = false
	}
	compare("Engine", functions)
	for name := range declared {
		t.Errorf("interface %s has no Go type", name)
	}
}

// TestPage looks for each action and each call in web/API.md.
func TestPage(t *testing.T) {
	text, err := os.ReadFile("../../../../web/API.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, name := range actionNames() {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("web/API.md lacks the action %s", name)
		}
	}
	for _, name := range CallNames() {
		if !strings.Contains(page, "| `"+name+"(") {
			t.Errorf("web/API.md lacks the call %s", name)
		}
	}
	names := slices.Collect(maps.Keys(calls))
	for _, m := range regexp.MustCompile("(?m)^\\| `(\\w+)\\(").FindAllStringSubmatch(page, -1) {
		if !slices.Contains(names, m[1]) {
			t.Errorf("web/API.md has the call %s, which does not exist", m[1])
		}
	}
}
