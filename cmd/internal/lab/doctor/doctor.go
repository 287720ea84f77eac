// Package doctor finds what is wrong with a machine before a run fails. Each check looks at
// one thing and reports what it found, with the command that mends it, or shows more of it. The checks see the
// machine through a Host, so tests can give them another one.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/cmd/internal/view/trace"
)

// Status says how a finding affects a run.
type Status string

// The statuses.
const (
	OK   Status = "ok"
	Warn Status = "warn" // a run can work, perhaps slowly or on another device
	Fail Status = "fail" // a run fails
	Skip Status = "skip" // not checked, because an earlier check failed, or because it does not matter
)

// Finding is what a check found.
type Finding struct {
	Status Status `json:"status"`
	Check  string `json:"check"` // the check's name
	Device string `json:"device,omitempty"`
	Found  string `json:"found"`
	Try    string `json:"try,omitempty"` // the command that mends it or shows more, for a shell; it may end with a comment

	quiet bool // a skipped check that says no more than the one before: the text leaves it out
}

// Check looks at one thing.
type Check struct {
	Name string
	Run  func(context.Context, *Host) []Finding
}

// ofHost makes a check of the machine, which has one finding.
func ofHost(run func(context.Context, *Host) Finding) func(context.Context, *Host) []Finding {
	return func(ctx context.Context, h *Host) []Finding { return []Finding{run(ctx, h)} }
}

// checks are the checks in their order: each relies on those before it.
var checks = []Check{
	{"modules", ofHost(modules)},
	{"devices", ofHost(devices)},
	{"files", perDevice(files)},
	{"libraries", perDevice(libraries)},
	{"open", perDevice(open, "files", "libraries")},
	{"memlock", perDevice(memlock, "open")},
	{"namespace", perDevice(namespace, "open")},
	{"port", perDevice(port, "open", "namespace")},
	{"gids", perDevice(gids, "open", "namespace")},
	{"mtu", perDevice(mtu, "open", "namespace")},
	{"firewall", perDevice(firewall, "namespace", "port", "gids")},
	{"loopback", perDevice(loopback, "open", "memlock", "namespace", "port", "gids")},
	{"soft", ofHost(soft)},
	{"route", ofHost(route)},
	{"server", ofHost(server)},
	{"job", ofHost(hostJob)},
	{"verdict", verdict},
}

// Run runs the checks within the limit and passes each finding to found. It returns an
// error that names the failed checks.
func Run(ctx context.Context, h *Host, limit time.Duration, found func(Finding) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	h.limit, h.failed = limit, map[string]bool{}
	h.look()
	var failed []string
	for _, check := range checks {
		if stopped(ctx) {
			break
		}
		findings, over := within(ctx, check, h)
		for _, f := range findings {
			f.Check = check.Name
			if f.Status == Fail {
				if !slices.Contains(failed, check.Name) {
					failed = append(failed, check.Name)
				}
				if !over { // a check that still runs may read the Host
					h.failed[check.Name] = true
					h.markFailed(f.Device, check.Name)
				}
			}
			if err := found(f); err != nil {
				return err
			}
		}
		if over {
			break // the check still runs and may read and change the Host
		}
	}
	if stopped(ctx) {
		return context.Cause(ctx)
	}
	if len(failed) > 0 {
		return &FailedError{failed}
	}
	return nil
}

// stopped reports whether ctx ended for another reason than the limit.
func stopped(ctx context.Context) bool {
	return ctx.Err() != nil && !errors.Is(context.Cause(ctx), context.DeadlineExceeded)
}

// FailedError names the checks that failed.
type FailedError struct{ Checks []string }

// Error lists the checks.
func (e *FailedError) Error() string {
	return "these checks failed: " + strings.Join(e.Checks, ", ")
}

// within runs a check until ctx ends. A call into a driver may not return, so the check has
// a goroutine. over reports that the check did not end.
func within(ctx context.Context, check Check, h *Host) (findings []Finding, over bool) {
	if ctx.Err() != nil {
		return []Finding{fail(h.patiently(), "no time is left: the checks before took %v", h.limit)}, true
	}
	result := make(chan []Finding, 1)
	go func() { result <- check.Run(ctx, h) }()
	select {
	case findings = <-result:
		return findings, false
	case <-ctx.Done():
	}
	// A check that heeds ctx ends at about the same time.
	select {
	case findings = <-result:
		return findings, false
	case <-time.After(h.limit / 20):
		return []Finding{fail(h.patiently(), "did not end within %v", h.limit)}, true
	}
}

// Text returns a function that prints findings to w, as lines.
func Text(w io.Writer) func(Finding) error {
	return func(f Finding) error {
		if f.quiet {
			return nil
		}
		_, err := fmt.Fprintf(w, "%-4s  %-9s  %s\n", f.Status, f.Check, line(f.Found))
		if err == nil && f.Try != "" && f.Status != Skip {
			_, err = fmt.Fprintf(w, "      try: %s\n", line(f.Try))
		}
		return err
	}
}

// line is a text without line breaks and control characters: an error may contain a peer's text.
func line(text string) string {
	return trace.Printable(strings.ReplaceAll(text, "\n", "; "))
}

// JSON returns a function that prints findings to w, one JSON object per line.
func JSON(w io.Writer) func(Finding) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return func(f Finding) error { return e.Encode(f) }
}

func ok(format string, args ...any) Finding {
	return Finding{Status: OK, Found: fmt.Sprintf(format, args...)}
}

func warn(try, format string, args ...any) Finding {
	return Finding{Status: Warn, Found: fmt.Sprintf(format, args...), Try: try}
}

func fail(try, format string, args ...any) Finding {
	return Finding{Status: Fail, Found: fmt.Sprintf(format, args...), Try: try}
}

func skip(format string, args ...any) Finding {
	return Finding{Status: Skip, Found: fmt.Sprintf(format, args...)}
}

// quietly is skip, and leaves the finding out of the text.
func quietly(why string) Finding { return Finding{Status: Skip, Found: why, quiet: true} }

// perDevice makes a check of each device. A device is left out if one of needs failed for it.
func perDevice(run func(context.Context, *Host, *device) Finding, needs ...string) func(context.Context, *Host) []Finding {
	return func(ctx context.Context, h *Host) (findings []Finding) {
		if len(h.devices) == 0 {
			return []Finding{quietly("there is no kernel device")}
		}
		for _, d := range h.devices {
			if need := d.failedOf(needs); need != "" {
				findings = append(findings, skip("%s: the check %s failed", d.name, need))
			} else {
				findings = append(findings, run(ctx, h, d))
			}
			findings[len(findings)-1].Device = d.name
		}
		return findings
	}
}
