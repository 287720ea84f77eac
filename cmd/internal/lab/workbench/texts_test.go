package workbench

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rawverbs/rawverbs/internal/diagnosis"
)

// entry is a line of a file of texts: a key and a text, both in JSON's quotes.
var entry = regexp.MustCompile(`(?m)^  ("(?:[^"\\]|\\.)*"): ("(?:[^"\\]|\\.)*"),$`)

// texts reads a file of the page's texts.
func texts(t *testing.T, language, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "web", "src", "texts", language, file))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range entry.FindAllSubmatch(content, -1) {
		var key, text string
		for i, to := range []*string{&key, &text} {
			if err := json.Unmarshal(m[i+1], to); err != nil {
				t.Fatalf("%s/%s: %s: %v", language, file, m[i+1], err)
			}
		}
		if _, twice := found[key]; twice {
			t.Errorf("%s/%s has %s twice", language, file, key)
		}
		found[key] = text
	}
	return found
}

// TestTexts compares the keys of the page's texts with the lessons and the mistakes: each key has a
// text in each language, and each text has a key.
func TestTexts(t *testing.T) {
	var lessonKeys, mistakeKeys, examKeys []string
	for _, l := range lessons() {
		of := func(part string) { lessonKeys = append(lessonKeys, "lesson."+l.ID+"."+part) }
		of("title")
		of("intro")
		for _, g := range l.Goals {
			of("goal." + g.Key)
			of("hint." + g.Key)
		}
		of("question")
		answerKeys(&l, of)
		of("why")
	}
	for _, p := range exam() {
		of := func(part string) { examKeys = append(examKeys, p.ID+"."+part) }
		of("title")
		of("ask")
		for _, g := range p.Goals {
			of("goal." + g.Key)
		}
		answerKeys(&p.Lesson, of)
		of("why")
	}
	for _, m := range mistakeViews() {
		for _, part := range []string{"title", "setting", "question", "why", "remedy"} {
			mistakeKeys = append(mistakeKeys, "mistake."+m.Name+"."+part)
		}
	}
	folders, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "web", "src", "texts", "*", "lessons.ts"))
	if err != nil || len(folders) < 2 {
		t.Fatalf("%d languages: %v", len(folders), err)
	}
	for _, folder := range folders {
		language := filepath.Base(filepath.Dir(folder))
		for file, keys := range map[string][]string{"lessons.ts": lessonKeys, "mistakes.ts": mistakeKeys, "exam.ts": examKeys} {
			found := texts(t, language, file)
			for _, key := range keys {
				if found[key] == "" {
					t.Errorf("%s/%s has no text for %s", language, file, key)
				}
			}
			for key := range found {
				if !slices.Contains(keys, key) && !group.MatchString(key) {
					t.Errorf("%s/%s has a text for %s, which is nothing", language, file, key)
				}
			}
			for key, text := range texts(t, "en", file) {
				if want, got := fixed(text), fixed(found[key]); !slices.Equal(want, got) {
					t.Errorf("%s/%s, %s: the names are %v, in English %v", language, file, key, got, want)
				}
			}
		}
	}
}

// answerKeys adds the keys of the answers, and of the reasons why the wrong ones are wrong.
func answerKeys(l *Lesson, of func(part string)) {
	for n := range l.Answers {
		of(fmt.Sprintf("answer.%d", n+1))
		if n+1 != l.Right {
			of(fmt.Sprintf("wrong.%d", n+1))
		}
	}
}

// TestOutcomeTexts shows that the page has words for each outcome of a packet: its picture has no counter's name.
func TestOutcomeTexts(t *testing.T) {
	for _, language := range []string{"en", "zh"} {
		content, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "web", "src", "texts", language, "ui.ts"))
		if err != nil {
			t.Fatal(err)
		}
		for _, outcome := range AllTables().Outcomes {
			if !strings.Contains(string(content), "  'ui.outcome."+outcome+"': '") {
				t.Errorf("%s/ui.ts has no words for the outcome %s", language, outcome)
			}
		}
	}
}

// name is what no translation changes: code, numbers in hexadecimal, C's names and paragraphs.
var name = regexp.MustCompile("`[^`]+`|0x[0-9a-f]+|\\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\\b|\n\n")

// fixed returns the names in a text, each once, sorted.
func fixed(text string) []string {
	found := name.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// group is the key of a group of mistakes.
var group = regexp.MustCompile(`^mistakes\.group\.[1-5]$`)

// TestQuotedTexts compares the translations of texts from Go with these texts: the causes and remedies of
// statuses, events and posts, the meanings of bits, and what lessons and mistakes show. Each text has a
// translation, and each translation belongs to a text. {1} in a key stands for any text. The packets' reasons and fields
// are in the source: what no session here shows needs a translation, too.
func TestQuotedTexts(t *testing.T) {
	var outcomes, rules []string
	for _, e := range diagnosis.Entries() {
		switch cause, remedy := diagnosis.Plain(e.Cause), diagnosis.Plain(e.Remedy); {
		case e.Kind == diagnosis.Status, e.Kind == diagnosis.Event:
			outcomes = append(outcomes, cause, remedy)
		case e.Kind == diagnosis.Symptom && e.Section == "": // a rule of posts
			rules = append(rules, cause, remedy)
		}
	}
	for _, bit := range AllTables().Bits {
		rules = append(rules, bit.About)
	}
	wide := move("client", theQP, "RTR", rtrRC.changed(values{"RQ_PSN": 1 << 24}))
	files := every()
	files["a wide PSN"] = File{Actions: script(toldRC(), wide)}
	files["moves that do not exist"] = File{Actions: script(toldRC(), move("client", theQP, "RTS", nil), move("client", theQP, "SQE", nil))}
	for _, c := range localChecks() {
		files["own memory: "+c.name] = File{Actions: c.actions}
	}
	files["waits"] = File{Actions: waits()}
	files["a peer without a receive"] = File{Actions: script(connected(nil, nil), send(1, 8), run)}
	files["a client without a receive"] = File{Actions: script(connected(nil, nil), postAt("server", theQP, WR{ID: 1, Opcode: "SEND", SGL: sge(0, 8)}), run)}
	files["a full queue that a poll empties"] = File{Actions: script(connect(eitherQuiet, nil, nil), post(signalLast(writes(1, fewSends))...), post(writes(5, 1)...))}
	files["a silent peer"] = File{Actions: script(connected(nil, values{"TIMEOUT": 31}), send(1, 8), drop(1), run)}
	files["sends in flight in SQD"] = File{Actions: script(connected(nil, nil), send(1, 8), move("client", theQP, "SQD", nil), move("client", theQP, "RTS", nil))}
	files["what no program can do"] = File{Actions: script(connected(nil, nil), send(1, 8), send(2, 8), send(3, 8), one(&Action{Do: "duplicate", Packet: 1}), one(&Action{Do: "reorder", Packet: 1}), one(&Action{Do: "deliver", Packet: 3}))}
	files["opcodes that C lacks"] = File{Actions: script(connected(nil, nil), post(WR{ID: 1, Opcode: "FLUSH"}), post(WR{ID: 2}))}
	for _, f := range files {
		rules = append(rules, shown(t, f)...)
	}
	rules = append(rules, refusedTexts(t)...)
	phrases := sourceTexts(t)
	rules = append(rules, phrases...)
	if len(outcomes) < 80 || len(rules) < 80 || len(phrases) < 60 {
		t.Fatalf("only %d and %d texts", len(outcomes), len(rules))
	}
	folders, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "web", "src", "texts", "*", "outcomes.ts"))
	if err != nil || len(folders) == 0 {
		t.Fatalf("%d languages: %v", len(folders), err)
	}
	for _, folder := range folders {
		language := filepath.Base(filepath.Dir(folder))
		for file, wanted := range map[string][]string{"outcomes.ts": outcomes, "rules.ts": rules} {
			compareQuoted(t, language, file, wanted)
		}
	}
}

// compareQuoted compares a file of translations with the texts that need one.
func compareQuoted(t *testing.T, language, file string, wanted []string) {
	t.Helper()
	found := texts(t, language, file)
	if file == "rules.ts" { // without the packets' fields, which the report shows too
		maps.Copy(found, texts(t, language, "packets.ts"))
	}
	patterns := map[string]*regexp.Regexp{}
	for key := range found {
		patterns[key] = pattern(key)
	}
	used := map[string]bool{}
	slices.Sort(wanted)
	for _, text := range slices.Compact(wanted) {
		if !translates(patterns, used, text) {
			t.Errorf("%s/%s has no translation of %q", language, file, text)
		}
	}
	names := []string{"payload", "Payload", "pad", "Pad", "data", "partition {1}", "{1} (forever)"} // of the packets' parts, and values
	for key, text := range found {
		if !used[key] && !slices.Contains(names, key) {
			t.Errorf("%s/%s translates %q, which is no text of Go", language, file, key)
		}
		if want, got := fixed(key), fixed(text); !slices.Equal(want, got) {
			t.Errorf("%s/%s, %q: the names are %v, in English %v", language, file, key, got, want)
		}
	}
}

// translates reports whether a table translates a text: as a whole, or as a part of a key. It marks the keys that do.
func translates(patterns map[string]*regexp.Regexp, used map[string]bool, text string) (done bool) {
	for key, pattern := range patterns {
		if m := pattern.FindStringSubmatch(text); m != nil {
			used[key], done = true, true
			for _, part := range m[1:] {
				translates(patterns, used, part)
			}
		} else if pattern.NumSubexp() > 0 && strings.Contains(key, text) {
			used[key], done = true, true
		}
	}
	return done
}

// hole is a place in a key where any text may stand.
var hole = regexp.MustCompile(`\{\d\}`)

// pattern returns what a key fits.
func pattern(key string) *regexp.Regexp {
	parts := hole.Split(key, -1)
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, "(.*?)") + "$")
}

// verb is a place in a format of package fmt.
var verb = regexp.MustCompile(`%#?[0-9]*[a-z]`)

// sourceTexts returns what the sources say of packets, of their fields and of their syndromes, parted where a value stands.
func sourceTexts(t *testing.T) (all []string) {
	t.Helper()
	for _, file := range []string{"simulated/reason.go", "internal/packet/fields.go", "internal/packet/aeth.go"} {
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "..", "..", "softroce", filepath.FromSlash(file)), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if row, ok := n.(*ast.CompositeLit); ok && row.Type == nil && len(row.Elts) == 4 { // a row of a header: its name is the specification's
				row.Elts = row.Elts[2:]
			}
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range verb.Split(text, -1) {
				if part = strings.Trim(part, ",:; "); strings.Contains(part, " ") && part != "rnr wait" && part != "rnr nak" {
					all = append(all, part)
				}
			}
			return true
		})
	}
	return all
}

// shown returns the checks, notes, causes and hints that a session shows. The bits of a mask have texts of the page.
func shown(t *testing.T, f File) (all []string) {
	t.Helper()
	s := played(t, f.Setup, f.Actions)
	for _, p := range s.world.Packets() {
		all = append(all, s.check(p), p.Why.Text)
		for _, f := range p.Fields() {
			all = append(all, f.About)
		}
	}
	for _, r := range s.results {
		all = append(all, r.Note)
		for _, wc := range r.Completions {
			all = append(all, wc.Check)
		}
		for _, line := range slices.Concat(r.Code.C, r.Code.Go) {
			if comment := commentLine.FindStringSubmatch(line); comment != nil {
				all = append(all, comment[1])
			}
		}
		if r.Refused != nil && (r.Refused.Transition == nil || r.Refused.Transition.Impossible) {
			all = append(all, r.Refused.Cause, r.Refused.Hint)
		}
	}
	return slices.DeleteFunc(all, func(text string) bool { return text == "" })
}

// commentLine is a line of code that is a comment, as the page finds it (dock.tsx).
var commentLine = regexp.MustCompile(`^(?://|/\*) (.*?)(?: \*/)?$`)

// spaced is a space beside a mark that has its own width.
var spaced = regexp.MustCompile(`.?.?(?:[。，；：？！、（）] | [。，；：？！、（）]).?.?`)

// TestFacts looks for sentences that the page's texts had wrong, and for what they say now.
func TestFacts(t *testing.T) {
	for language, facts := range map[string]struct{ wrong, right []string }{
		"en": {
			wrong: []string{"send queue drained", "the device waits twice", "as soon as the queue pair is in RTS", "the one state in which receives are taken", "any → RESET or ERR", "run the clock, and there is room", "which is fewer than 2.\"", "arrives exactly once", "as here, the SEND", "the ladder shows", "serves it in neither case"},
			right: []string{"ERR takes receives, too", "up to four times TIMEOUT", "SQD (send queue drain)", "This device doubles its wait", "before that the post is refused", "SQ_PSN, which may be any number", "run the clock and poll", "only `wr_id`, `status`, `qp_num` and `vendor_err` are valid", "in the half of all numbers before the expected one"},
		},
		"zh": {
			wrong: []string{"唯一能投递接收请求", "任意 → RESET 或 ERR", "队列对自己修复", "可能还有更多字节", "设备每次等待的时间加倍", "队列对一到 RTS", "完成，才让出位置", "接收请求，也没有收到 NAK", "不在 RTR", "标记错误的报文",
				// One term for one thing.
				"头部", "净荷", "冲刷", "作废", "重发", "抓包", "让时钟走", "走完", "子对象", "太浅", "无信号", "signaled 标志", "MR 已", "区域已关闭", "区域就被关闭", "关闭内存区域", "$1 的完成通知", "这些状态：", "在 CQ 太小", "从它往下数", "转换队列对。", "转换队列对，", "少于 2。\"", "最后一个状态的", "WR_FLUSH_ERR 的状态，", "会是什么状态？", "一个 SGE", "转换到", "恰好到达一次", "两种情况都不会处理它", "毛病", "没有谁"},
			right: []string{"ERR 也接受", "最多到 TIMEOUT 的四倍", "队列对会自行修复", "只显示前几行", "这个设备每次把等待时间加倍", "更早投递会被拒绝", "SQ_PSN，它可以是任何数", "推进时钟，再轮询", "客户端也没有收到 NAK", "还没到 RTR 或已在 ERR", "故意标错", "切换到 INIT", "只有 `wr_id`、`status`、`qp_num` 和 `vendor_err` 有效", "落在期待值之前的那一半"},
		},
	} {
		files, err := filepath.Glob(filepath.Join("..", "..", "..", "..", "web", "src", "texts", language, "*.ts"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files: %v", language, len(files), err)
		}
		var all strings.Builder
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all.Write(content)
		}
		for _, text := range facts.wrong {
			if strings.Contains(all.String(), text) {
				t.Errorf("%s says %q", language, text)
			}
		}
		for _, text := range facts.right {
			if !strings.Contains(all.String(), text) {
				t.Errorf("%s does not say %q", language, text)
			}
		}
		for _, m := range spaced.FindAllString(all.String(), -1) {
			t.Errorf("%s has a space at Chinese punctuation: %q", language, m)
		}
	}
}
