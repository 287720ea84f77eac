//go:build cabi

package cabi

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestExplain checks what rawverbs run --explain prints about failed calls of a C program: one line
// for each, with the cause and the remedy.
func TestExplain(t *testing.T) {
	mistake := compile(t, "mistake")
	for _, c := range []struct{ name, errno, want, try string }{
		{"mask", "Invalid argument", "ibv_modify_qp on soft0", "RC RESET→INIT: missing PORT (the device's port the QP is bound to); try: add PORT to the mask"},
		{"state", "Invalid argument", "ibv_modify_qp on soft0", "RC RESET→RTS: no such transition; from RESET a queue pair can go to RESET, INIT"},
		{"early-send", "Invalid argument", "ibv_post_send on QP ", "the queue pair is in RESET; try: move the queue pair to RTS, where sends begin"},
		{"busy", "Device or resource busy", "ibv_dealloc_pd: ", "the PD is used by 1 other object: EBUSY (16, device or resource busy); try: destroy those first"},
		{"access", "Invalid argument", "ibv_reg_mr on soft0", "try: give LOCAL_WRITE together with REMOTE_WRITE"},
	} {
		quiet := onSoft(t, mistake, c.name)
		quiet.succeeds()
		if want := c.name + ": " + c.errno; quiet.text() != want {
			t.Errorf("%q printed %q, want %q", quiet.command, quiet.text(), want)
		}
		loud := start(t, ours("rawverbs"), "run", "--explain", "--", mistake, c.name)
		loud.succeeds()
		lines := loud.output()
		if len(lines) != 2 {
			t.Fatalf("%q printed %d lines, want the errno and the explanation", loud.command, len(lines))
		}
		i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "rawverbs: ") })
		if i < 0 || !strings.Contains(lines[i], c.want) || !strings.Contains(lines[i], c.try) {
			t.Errorf("%q: no line with %q and %q", loud.command, c.want, c.try)
		}
	}
}

// TestSanitizer runs a program that was built with the address sanitizer. The sanitizer must be the
// first library that is preloaded. It reports the objects that the program does not free.
func TestSanitizer(t *testing.T) {
	program := compile(t, "mistake", "-fsanitize=address")
	library, err := exec.CommandContext(t.Context(), "gcc", "-print-file-name=libasan.so").Output()
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "LD_PRELOAD="+strings.TrimSpace(string(library)), ours("rawverbs"), "run", "--", program, "mask")
	if status := p.status(); status == 0 {
		t.Errorf("%q succeeded, but it leaks a queue pair", p.command)
	}
	p.has(t, "mask: Invalid argument", "LeakSanitizer: detected memory leaks", "cabi/shim/qp.c")
}
