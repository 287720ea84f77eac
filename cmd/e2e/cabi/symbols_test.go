//go:build cabi

package cabi

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// exported returns the functions that a library exports, each as nm prints it: NAME@@NODE, or NAME@NODE if
// it is not the default.
func exported(t *testing.T, library string) []string {
	t.Helper()
	out, err := exec.Command("nm", "-D", "--defined-only", library).Output()
	if err != nil {
		t.Fatalf("nm -D %s: %v", library, err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if f := strings.Fields(line); len(f) == 3 && f[1] == "T" {
			names = append(names, f[2])
		}
	}
	return names
}

// installed returns the path of the real libibverbs.
func installed(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("/sbin/ldconfig", "-p").Output()
	if err != nil {
		t.Fatalf("ldconfig -p: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		if name, path, ok := strings.Cut(strings.TrimSpace(line), " => "); ok && strings.HasPrefix(name, "libibverbs.so.1 ") {
			return path
		}
	}
	t.Fatal("no libibverbs.so.1; try: apt-get install libibverbs1")
	return ""
}

// later has the public functions that rdma-core added after release 44, by node.
var later = map[string][]string{
	"IBVERBS_1.15": {"ibv_alloc_dmah", "ibv_dealloc_dmah", "ibv_reg_mr_ex"},
	"IBVERBS_1.16": {"ibv_dm_export_dmabuf_fd", "ibv_query_port_speed"},
	"IBVERBS_1.17": {"ibv_alloc_buf", "ibv_free_buf", "ibv_reg_buf_mr"},
	"IBVERBS_1.18": {"_ibv_query_comp_cntr_caps", "ibv_create_comp_cntr", "ibv_destroy_comp_cntr", "ibv_export_buf_dmabuf_fd",
		"ibv_inc_comp_cntr", "ibv_inc_err_comp_cntr", "ibv_qp_attach_comp_cntr", "ibv_read_comp_cntr", "ibv_read_err_comp_cntr",
		"ibv_set_comp_cntr", "ibv_set_err_comp_cntr"},
}

// TestSymbols compares the public functions of the shim with those of the real libibverbs: names, nodes
// and which node is the default.
func TestSymbols(t *testing.T) {
	want := exported(t, installed(t))
	want = slices.DeleteFunc(want, func(name string) bool { return strings.Contains(name, "PRIVATE") })
	if len(want) < 100 { // 44 has 75, and 34 of libibverbs 1.0
		t.Fatalf("the real library exports only %q", want)
	}
	for node, names := range later {
		for _, name := range names {
			want = append(want, name+"@@"+node)
		}
	}
	have := make(map[string]bool)
	for _, name := range exported(t, ours("librawverbs.so")) {
		have[name] = true
	}
	for _, name := range want {
		if !have[name] {
			t.Errorf("librawverbs.so does not export %s", name)
		}
	}
}

// TestObjects runs a program that makes each kind of object, and checks the rules of libibverbs: what is
// busy, what is refused and with which error, and what the software device does not have.
func TestObjects(t *testing.T) {
	p := onSoft(t, compile(t, "objects"))
	p.succeeds()
}
