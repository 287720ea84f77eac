//go:build unix

// The files of the device, as below /sys and /dev. The library leads programs to them
// (cabi/shim/files.c).

package preload

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// uverbs is the device's entry in infiniband_verbs, as in cabi/shim/device.c.
const uverbs = "uverbs4791"

// gidSlots is the length of the device's GID table.
const gidSlots = 16

// tree is a folder's contents: file names with their texts, or with the targets of links.
type tree struct{ texts, links map[string]string }

// files writes the device's files and returns their folder. The folder's name depends on the
// contents, so all programs of a user share the folder, and nobody needs to remove it before the
// system clears its temporary files. It has no secrets: other users may read it, because a program
// may give up its rights.
func (s *Settings) files() (string, error) {
	defer unix.Umask(unix.Umask(0o022))
	t := s.tree()
	folder, err := ownFolder(fmt.Sprintf("rawverbs-%d", os.Getuid()))
	if err != nil {
		return "", errors.WithMessage(err, "making a folder for the files of the device; try: a TMPDIR that may be written")
	}
	folder = filepath.Join(folder, fmt.Sprintf("%s-%08x", s.entry(), t.hash()))
	if len(folder) > longest {
		return "", errors.Errorf("the folder for the files of the device, %s, has a path of more than %d bytes; try: a TMPDIR with a shorter path", folder, longest)
	}
	return folder, errors.WithMessage(t.write(folder), "writing the files of the device; try: a TMPDIR with space and of a file system with links")
}

// longest is the length of the folder's path at most: lead in cabi/shim/files.c has room for 512 bytes, and
// the paths below the folder have up to 122.
const longest = 512 - 1 - 122

// ownFolder makes a folder to which only this user may write, or takes the one that is there. Root's
// programs may give up their rights, and then could not read root's XDG_RUNTIME_DIR.
func ownFolder(name string) (string, error) {
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" && os.Getuid() != 0 {
		if folder, err := makeOwn(runtime, name); err == nil {
			return folder, nil
		}
	}
	folder, err := makeOwn(os.TempDir(), name)
	if err == nil {
		return folder, nil
	}
	// Somebody else may have taken the name, but cannot foresee another.
	others, _ := filepath.Glob(folder + "-*") // an error: none
	if i := slices.IndexFunc(others, isOwn); i >= 0 {
		return others[i], nil
	}
	if folder, err = os.MkdirTemp(filepath.Dir(folder), name+"-*"); err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o755)
}

// makeOwn makes a folder of this user's. The path has no links. After an error it is that of the folder that
// is not there, or is not this user's.
func makeOwn(parent, name string) (string, error) {
	if real, err := filepath.EvalSymlinks(parent); err == nil {
		parent = real
	}
	if real, err := filepath.Abs(parent); err == nil {
		parent = real
	}
	folder := filepath.Join(parent, name)
	if err := os.Mkdir(folder, 0o755); err != nil && !isOwn(folder) {
		return folder, err
	}
	return folder, nil
}

// isOwn reports whether a folder belongs to this user, and nobody else may write to it.
func isOwn(folder string) bool {
	info, err := os.Lstat(folder)
	return err == nil && info.IsDir() && info.Mode()&0o022 == 0 && int(info.Sys().(*syscall.Stat_t).Uid) == os.Getuid()
}

// entry is the device's name in lists and folders.
func (s *Settings) entry() string {
	return strings.NewReplacer(":", "-", "/", "-", "%", "-").Replace(s.Device)
}

// guid is the device's, with the hash of cabi/shim/device.c.
func (s *Settings) guid() string {
	host, _ := os.Hostname() // without a name: the hash of none
	hash := fnv.New64a()
	hash.Write([]byte(host + s.Device))
	g := hash.Sum64()
	return fmt.Sprintf("%04x:%04x:%04x:%04x", g>>48, g>>32&0xffff, g>>16&0xffff, g&0xffff)
}

// tree returns the files. Addresses are known only when a program has opened the device: the
// library makes their files then.
func (s *Settings) tree() tree {
	const (
		class   = "sys/class/"
		virtual = "sys/devices/virtual/"
	)
	t := tree{texts: map[string]string{class + "infiniband_verbs/abi_version": "6"}, links: map[string]string{}}
	for name, text := range map[string]string{
		"node_type": "1: CA", "node_guid": s.guid(), "sys_image_guid": s.guid(), "node_desc": "rawverbs",
		"hca_type": "softroce", "board_id": "softroce", "fw_ver": "softroce", "hw_rev": "0x0",
		"ports/1/state": "4: ACTIVE", "ports/1/phys_state": "5: LinkUp", "ports/1/rate": "10 Gb/sec (1X QDR)",
		"ports/1/link_layer": "Ethernet", "ports/1/cap_mask": "0x00000000", "ports/1/lid": "0x0", "ports/1/lid_mask_count": "0",
		"ports/1/sm_lid": "0x0", "ports/1/sm_sl": "0", "ports/1/pkeys/0": "0xffff",
		"ports/1/gid_attrs/types/0": "RoCE v2", "ports/1/gid_attrs/types/1": "RoCE v2",
		"ports/1/gid_attrs/ndevs/0": s.netdev(), "ports/1/gid_attrs/ndevs/1": s.netdev(),
	} {
		t.texts[virtual+"infiniband/"+s.entry()+"/"+name] = text
	}
	for i := range gidSlots {
		t.texts[fmt.Sprintf("%sinfiniband/%s/ports/1/gids/%d", virtual, s.entry(), i)] = "0000:0000:0000:0000:0000:0000:0000:0000"
	}
	for name, text := range map[string]string{"ibdev": s.entry(), "abi_version": "1", "dev": "1:3"} { // that of /dev/null
		t.texts[virtual+"infiniband_verbs/"+uverbs+"/"+name] = text
	}
	for _, folder := range []string{class + "infiniband", class + "infiniband_verbs", virtual + "infiniband", virtual + "infiniband_verbs", "dev/infiniband"} {
		t.linkReal(folder)
	}
	t.links[class+"infiniband/"+s.entry()] = "../../devices/virtual/infiniband/" + s.entry()
	t.links[class+"infiniband_verbs/"+uverbs] = "../../devices/virtual/infiniband_verbs/" + uverbs
	t.links["dev/infiniband/"+uverbs] = "/dev/null" // programs look whether they may open it
	return t
}

// netdev is the interface of the device's addresses, if its name says so.
func (s *Settings) netdev() string {
	where, named := strings.CutPrefix(s.Device, "soft:")
	if !named {
		return "lo"
	}
	return where
}

// linkReal makes links to the real files of a folder, so that real devices are listed too.
func (t tree) linkReal(folder string) {
	entries, _ := os.ReadDir("/" + folder) // most machines have no such folder
	for _, e := range entries {
		if e.Name() != "abi_version" {
			t.links[folder+"/"+e.Name()] = "/" + folder + "/" + e.Name()
		}
	}
}

func (t tree) hash() uint32 {
	hash := fnv.New32a()
	for _, m := range []map[string]string{t.texts, t.links} {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			hash.Write([]byte(name + "\x00" + m[name] + "\x00"))
		}
	}
	return hash.Sum32()
}

// write writes what is missing. Other programs may do the same at the same time.
func (t tree) write(folder string) error {
	for name, text := range t.texts {
		file := filepath.Join(folder, name)
		want := []byte(text + "\n")
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, want) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		part := fmt.Sprintf("%s.%d", file, os.Getpid())
		if err := os.WriteFile(part, want, 0o644); err != nil {
			return err
		}
		if err := os.Rename(part, file); err != nil {
			return err
		}
	}
	for name, target := range t.links {
		link := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(link), 0o755); err != nil {
			return err
		}
		if err := os.Symlink(target, link); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}
