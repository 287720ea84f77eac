// One event of a record, as a Go value.

package trace

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rawverbs/rawverbs/internal/event"
)

// The two ends of a run, as Event.End has them.
const (
	EndClient = "client"
	EndServer = "server"
)

// Event is one thing that happened at one end.
type Event struct {
	Time    time.Time   // on the record's clock; UTC, to the nanosecond
	End     string      // EndClient or EndServer
	Who     string      // who logged it: "client", "server/3"
	Level   slog.Level  // slog.LevelDebug and above
	Event   string      // its kind, such as "qp.transition"
	Verb    string      // the C call it stands for; "" if none
	Path    string      // "control", "data" or "info"; "" if none
	Message string      // for people
	Attrs   []slog.Attr // the rest, in the order of logging: see Attr
}

// Attr returns the attribute of a name, or one within a group: Attr("attr", "PORT").
// Values are strings, integers (Int64, and Uint64 beyond it), floating-point
// numbers with a fraction, booleans, durations and groups. The zero Value, of
// kind Any, means that no attribute has that name.
func (e *Event) Attr(path ...string) slog.Value {
	attrs := e.Attrs
	var found slog.Value
	for _, name := range path {
		found = slog.Value{}
		for _, a := range attrs {
			if a.Key == name {
				found = a.Value
			}
		}
		attrs = nil
		if found.Kind() == slog.KindGroup {
			attrs = found.Group()
		}
	}
	return found
}

// newEvent makes an event of a record's attributes. Those that every event has become
// fields.
func newEvent(at time.Time, end string, r slog.Record, attrs []slog.Attr) Event {
	e := Event{Time: at, End: end, Level: r.Level, Message: keptText(r.Message)}
	for _, a := range canonical(attrs, 0) {
		switch a.Key {
		case "who":
			e.Who = a.Value.String()
		case "event":
			e.Event = a.Value.String()
		case "verb":
			e.Verb = a.Value.String()
		case "path":
			e.Path = a.Value.String()
		default:
			e.Attrs = append(e.Attrs, a)
		}
	}
	e.Who, e.Event = cmp.Or(e.Who, end), cmp.Or(e.Event, event.Unkinded.Name())
	return e
}

// maxDepth is how deep groups may be nested.
const maxDepth = 8

// durationSuffix ends the names of numbers, in files, that are nanoseconds.
const durationSuffix = "_ns"

// canonical brings attributes into the one form that they have in an Event, so that
// writing and reading returns the same. Values are resolved; groups without a name are
// dissolved and empty ones dropped; of two attributes with one name the last stays; a
// number has the kind that its decimal digits are read as.
func canonical(attrs []slog.Attr, depth int) []slog.Attr {
	var out []slog.Attr
	for _, a := range attrs {
		a.Value = a.Value.Resolve()
		if m, is := a.Value.Any().(map[string]string); is {
			a.Value = groupOf(m)
		}
		switch {
		case a.Equal(slog.Attr{}):
			continue
		case a.Value.Kind() == slog.KindGroup && depth < maxDepth:
			group := canonical(a.Value.Group(), depth+1)
			if a.Key == "" {
				for _, inner := range group {
					out = with(out, inner)
				}
			} else if len(group) > 0 {
				out = with(out, slog.Attr{Key: validKey(a.Key), Value: slog.GroupValue(group...)})
			}
		default:
			out = with(out, scalar(a))
		}
	}
	return out
}

// groupOf makes a group of a map, ordered by its keys.
func groupOf(m map[string]string) slog.Value {
	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(m)) {
		attrs = append(attrs, slog.String(key, m[key]))
	}
	return slog.GroupValue(attrs...)
}

// with appends a, in place of one that would be written under the same name.
func with(attrs []slog.Attr, a slog.Attr) []slog.Attr {
	for i := range attrs {
		if writtenKey(attrs[i]) == writtenKey(a) {
			attrs = append(attrs[:i], attrs[i+1:]...)
			break
		}
	}
	return append(attrs, a)
}

// writtenKey is the name that an attribute has in a file.
func writtenKey(a slog.Attr) string {
	if a.Value.Kind() == slog.KindDuration {
		return a.Key + durationSuffix
	}
	return a.Key
}

func scalar(a slog.Attr) slog.Attr {
	a.Key = validKey(a.Key)
	switch v := a.Value; v.Kind() {
	case slog.KindBool, slog.KindDuration:
	case slog.KindInt64, slog.KindUint64:
		a = number(a.Key, v.String())
	case slog.KindFloat64:
		f := v.Float64()
		switch {
		case math.IsNaN(f) || math.IsInf(f, 0):
			a.Value = slog.StringValue(v.String())
		case f == math.Trunc(f) && math.Abs(f) < 1e21: // written without an exponent
			a = number(a.Key, strconv.FormatFloat(f, 'f', -1, 64))
		}
	case slog.KindTime:
		a.Value = slog.StringValue(v.Time().Format(time.RFC3339Nano))
	case slog.KindString:
		a.Value = slog.StringValue(keptText(v.String()))
	default:
		a.Value = slog.StringValue(keptText(fmt.Sprint(v.Any())))
	}
	return a
}

// maxText is how many bytes of a text are kept: the peer may send any number.
const maxText = 16 << 10

// keptText is a text as events have it: UTF-8, and cut if it is too long.
func keptText(s string) string {
	if len(s) <= maxText {
		s = strings.ToValidUTF8(s, "\uFFFD")
	}
	if len(s) <= maxText { // a wrong byte becomes three
		return s
	}
	rest := fmt.Sprintf("… (%d bytes)", len(s))
	s = strings.ToValidUTF8(s[:maxText/4], "")
	return s + rest
}

// number makes an attribute of decimal digits: of the first kind that holds them.
func number(key, digits string) slog.Attr {
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if name, is := strings.CutSuffix(key, durationSuffix); is && name != "" {
			return slog.Duration(name, time.Duration(n))
		}
		return slog.Int64(key, n)
	}
	if n, err := strconv.ParseUint(digits, 10, 64); err == nil {
		return slog.Uint64(key, n)
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil { // out of range
		return slog.String(key, digits)
	}
	return slog.Float64(key, f)
}

// validKey is a name that a file can have.
func validKey(key string) string {
	if key == "" {
		return "(no name)"
	}
	return strings.ToValidUTF8(key, "\uFFFD")
}
