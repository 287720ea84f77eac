//go:build unix

// The files of the device, as below /sys and /dev. The library leads programs to them
// (cabi/shim/files.c).

package preload

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"net"
	"net/netip"
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

// ownFolder makes a folder to which only this user may write, or takes the one that is there. It is below the folder
// for temporary files. XDG_RUNTIME_DIR is nobody else's, but goes when the user logs out, and a program may run
// longer. So it is used only if others have the name. Root's programs may give up their rights, and then could
// not read root's.
func ownFolder(name string) (string, error) {
	temporary := realPath(os.TempDir())
	folder := filepath.Join(temporary, name)
	err := makeOwn(folder)
	if err == nil || !errors.Is(err, os.ErrExist) {
		return folder, err
	}
	if runtime := os.Getenv("XDG_RUNTIME_DIR"); runtime != "" && os.Getuid() != 0 {
		if folder := filepath.Join(realPath(runtime), name); makeOwn(folder) == nil {
			return folder, nil
		}
	}
	// Nobody can foresee another name. An earlier program may have made it.
	entries, _ := os.ReadDir(temporary) // an error: none
	for _, e := range entries {
		if other := filepath.Join(temporary, e.Name()); strings.HasPrefix(e.Name(), name+"-") && isOwn(other) {
			return other, nil
		}
	}
	if folder, err = os.MkdirTemp(temporary, name+"-*"); err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o755)
}

// realPath returns the absolute path of a folder with its links resolved, or the path itself if that fails.
func realPath(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if real, err := filepath.Abs(path); err == nil {
		path = real
	}
	return path
}

// makeOwn makes a folder of this user's, or leaves it if it is there.
func makeOwn(folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil && !isOwn(folder) {
		return err
	}
	return nil
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
	// The parent has no PCI attributes, so programs do not offer the device a GPU's memory. Loopback has no place in it:
	// pyverbs takes an interface there as a sign that librdmacm works.
	t.texts[virtual+"rawverbs/"+s.entry()+"/numa_node"] = "-1"
	if netdev := s.netdev(); netdev != "lo" {
		t.links[virtual+"rawverbs/"+s.entry()+"/net/"+netdev] = "/sys/class/net/" + netdev
	}
	t.links[virtual+"infiniband/"+s.entry()+"/device"] = "../../rawverbs/" + s.entry()
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

// netdev is the interface of the device's addresses.
func (s *Settings) netdev() string {
	where, named := strings.CutPrefix(s.Device, "soft:")
	address, err := netip.ParseAddr(where)
	switch {
	case !named || address.IsLoopback():
		return "lo"
	case err != nil:
		return where
	case address.Zone() != "":
		return address.Zone()
	}
	interfaces, _ := net.Interfaces() // an error: as if none had the address
	for _, i := range interfaces {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr() == address {
				return i.Name
			}
		}
	}
	return where // opening the device fails
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
