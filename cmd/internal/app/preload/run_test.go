//go:build unix

package preload

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pkg/errors"
)

// TestRunRefuses checks the exit statuses and the remedies of commands that are not started.
func TestRunRefuses(t *testing.T) {
	mine, known := machines[runtime.GOARCH]
	if !known {
		mine = elf.EM_386 // linkable does not compare
	}
	static := writeELF(t, mine, "")
	const glibc = "/lib64/ld-linux-x86-64.so.2"
	cases := []struct {
		name, command string
		status        int
		want          []string
	}{
		{"in no folder of PATH", "no-such-program", statusNotFound, []string{"no-such-program: executable file not found in $PATH; try: "}},
		{"no file", "./no-such-program", statusNotFound, []string{"./no-such-program: no such file or directory; try: "}},
		{"a folder", t.TempDir(), statusCannotRun, []string{"is a directory; try: a program in it"}},
		{"not executable", write(t, nil, 0o644), statusCannotRun, []string{"permission denied; try: chmod +x "}},
		{"static", static, statusCannotRun, []string{static + " is linked statically", "softroce instead", `eval "$(rawverbs env)"; ` + static}},
		{"musl", writeELF(t, mine, "/lib/ld-musl-x86_64.so.1"), statusCannotRun, []string{"is linked with musl", "try: a build of the program for glibc"}},
		{"a script of a static program", writeScript(t, "#! "+static+" -x\n"), statusCannotRun, []string{"is a script: " + static + " is linked statically"}},
		{"a script of such a script", writeScript(t, "#!"+writeScript(t, "#!"+static+"\n")), statusCannotRun, []string{"is a script: " + static}},
		// What may be started fails later, because this test has no libraries.
		{"dynamic", writeELF(t, mine, glibc), statusFailed, []string{"try: make libraries"}},
		{"a script", writeScript(t, "#!/bin/sh\n"), statusFailed, []string{"try: make libraries"}},
		{"a script without an interpreter", writeScript(t, "true\n"), statusFailed, []string{"try: make libraries"}},
		{"an interpreter that does not exist", writeScript(t, "#!/nosuch\n"), statusFailed, []string{"try: make libraries"}},
	}
	if known {
		other := writeELF(t, elf.EM_S390, glibc)
		cases = append(cases, struct {
			name, command string
			status        int
			want          []string
		}{"another processor", other, statusCannotRun, []string{other + " is a program for EM_S390, and this rawverbs is for " + mine.String()}})
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := (&Settings{Device: "soft0"}).Run([]string{c.command})
			var own interface{ ExitStatus() int }
			if !errors.As(err, &own) {
				t.Fatalf("no exit status: %v", err)
			}
			if own.ExitStatus() != c.status {
				t.Errorf("exit status %d, want %d", own.ExitStatus(), c.status)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
		})
	}
}

// TestPrivileged checks that a setuid program is refused only if it belongs to another user. Linux gives a
// script the rights of its interpreter.
func TestPrivileged(t *testing.T) {
	program := write(t, nil, 0o755)
	setuid := func(file string) {
		t.Helper()
		if err := os.Chmod(file, 0o755|os.ModeSetuid); err != nil {
			t.Fatal(err)
		}
	}
	setuid(program)
	if err := loadable(program); err != nil {
		t.Errorf("a setuid program of this user: %v", err)
	}
	if os.Getuid() != 0 { // then the system has programs of another user, such as su
		program = "/bin/su"
	} else if err := os.Chown(program, 65534, -1); err != nil {
		t.Fatal(err)
	} else {
		setuid(program) // chown cleared it
	}
	script := writeScript(t, "#!"+program+"\n")
	for name, file := range map[string]string{"a setuid program of another user": program, "its script": script, "a script of its script": writeScript(t, "#!"+script+"\n")} {
		if err := loadable(file); err == nil || !strings.Contains(err.Error(), program+" gets the rights") || !strings.Contains(err.Error(), "try: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if os.Getuid() == 0 {
		script = writeScript(t, "#!/bin/sh\n")
		if err := os.Chown(script, 65534, -1); err != nil {
			t.Fatal(err)
		}
		setuid(script)
		if err := loadable(script); err != nil {
			t.Errorf("a setuid script, which gets no rights: %v", err)
		}
	}
}

func write(t *testing.T, content []byte, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(file, content, mode); err != nil {
		t.Fatal(err)
	}
	return file
}

func writeScript(t *testing.T, text string) string {
	t.Helper()
	return write(t, []byte(text), 0o755)
}

// writeELF writes the headers of a program. linker "" makes it static.
func writeELF(t *testing.T, machine elf.Machine, linker string) string {
	t.Helper()
	const header, segment = 64, 56 // sizes
	h := elf.Header64{
		Type: uint16(elf.ET_EXEC), Machine: uint16(machine), Version: uint32(elf.EV_CURRENT),
		Phoff: header, Ehsize: header, Phentsize: segment, Phnum: 1,
	}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	p := elf.Prog64{Type: uint32(elf.PT_LOAD)}
	if linker != "" {
		size := uint64(len(linker) + 1)
		p = elf.Prog64{Type: uint32(elf.PT_INTERP), Off: header + segment, Filesz: size, Memsz: size}
	}
	var file bytes.Buffer
	for _, part := range []any{h, p, append([]byte(linker), 0)} {
		if err := binary.Write(&file, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return write(t, file.Bytes(), 0o755)
}
