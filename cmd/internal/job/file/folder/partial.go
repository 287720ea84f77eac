// Partial files: they stay when the connection of their client is lost, so that the client can go on.

package folder

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"
)

// Kept is how long a partial file stays after its last byte was written. A folder removes older ones
// when it is opened, and every few minutes.
const Kept = time.Hour

// keyLength is the length of a key, which crypto/rand.Text makes.
const keyLength = 26

// CheckKey returns an error unless key is a text of crypto/rand.Text.
func CheckKey(key string) error {
	if len(key) != keyLength || strings.Trim(key, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
		return errors.Errorf("the key of the partial file is %q, which is not %d characters of base32; try: a client of this program's version", abridged(key), keyLength)
	}
	return nil
}

// Partial opens the partial file of a key, or creates an empty one with mode 0644 minus the umask.
// If the key's file of this name is complete, Partial opens that file, also if somebody has moved or
// removed it. If the file of the key has another name than name, it is complete, and Partial leaves it
// as it is and creates an empty one. The caller must call Close, which removes the hidden name unless
// Keep was called. The key must be known only to the client. One File at a time may have the key.
func (f *Folder) Partial(key, name string) (*File, error) {
	if err := CheckKey(key); err != nil {
		return nil, err
	}
	n := &File{folder: f, hidden: hiddenFor(key), delivered: deliveredFor(key, name)}
	err := n.openDelivered()
	if errors.Is(err, fs.ErrNotExist) {
		err = n.openHidden()
	}
	if err == nil && !n.complete && !n.isNamed(name) {
		if names, _ := n.stat(); names > 1 {
			if err = n.Close(); err == nil { // only the hidden name goes
				err = n.openHidden()
			}
		}
	}
	if err == nil {
		err = f.root.Chtimes(n.hidden, time.Time{}, time.Now()) // a sweep must not find it old
	}
	if err != nil {
		return nil, fmt.Errorf("open a partial file in the folder %s: %w; try: a folder that the server may write to", f.path, reason(err))
	}
	return n, nil
}

func (n *File) openHidden() (err error) {
	n.file, err = n.folder.root.OpenFile(n.hidden, os.O_RDWR|os.O_CREATE, mode)
	return err
}

// openDelivered opens the file by the hidden name that it has after Commit.
func (n *File) openDelivered() (err error) {
	if n.file, err = n.folder.root.Open(n.delivered); err == nil {
		n.hidden, n.complete = n.delivered, true
	}
	return err
}

// stat returns how many names the file has, and its bytes; 0 if that is not known.
func (n *File) stat() (names uint64, bytes int64) {
	var at unix.Stat_t
	if err := unix.Fstat(int(n.file.Fd()), &at); err != nil {
		return 0, 0
	}
	return uint64(at.Nlink), at.Size //nolint:unconvert // its type depends on the platform
}

// Have returns the bytes of the partial file of a key; 0 if there is none. named reports whether it
// is complete and was given the name already, because the connection was lost after Commit.
func (f *Folder) Have(key, name string) (bytes int64, named bool) {
	if CheckKey(key) != nil {
		return 0, false
	}
	if info, err := f.root.Lstat(deliveredFor(key, name)); err == nil {
		return info.Size(), true
	}
	info, err := f.root.Lstat(hiddenFor(key))
	if err != nil {
		return 0, false
	}
	other, err := f.root.Lstat(name)
	return info.Size(), err == nil && os.SameFile(info, other)
}

// Prefix returns a reader of the first n bytes of a partial file.
func (n *File) Prefix(bytes int64) io.Reader { return io.NewSectionReader(n.file, 0, bytes) }

// Resume drops what follows the first bytes of a partial file. The next Write appends to them.
func (n *File) Resume(bytes int64) error {
	_, before := n.stat()
	err := n.folder.giveBack(n, before-bytes, func() error { return n.file.Truncate(bytes) })
	if err == nil {
		_, err = n.file.Seek(bytes, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("shorten a partial file in the folder %s: %w; try: dmesg, for errors of the disk", n.folder.path, reason(err))
	}
	return nil
}

// Keep makes Close leave a partial file in the folder, for Partial.
func (n *File) Keep() {
	n.kept = true
	n.folder.touch()
}

// deliver renames the hidden name of a partial file that has its name. So Partial knows a complete
// file, also after the file was moved or removed.
func (n *File) deliver() error {
	if n.delivered == "" || n.complete {
		return nil
	}
	if err := n.folder.root.Rename(n.hidden, n.delivered); err != nil {
		return err
	}
	n.hidden, n.complete = n.delivered, true
	return nil
}

// isNamed reports whether the file has the name.
func (n *File) isNamed(name string) bool {
	mine, err := n.file.Stat()
	if err != nil {
		return false
	}
	other, err := n.folder.root.Lstat(name)
	return err == nil && os.SameFile(mine, other)
}

// hiddenFor returns the temporary name of a file. Clients cannot use it, because it begins with a dot.
func hiddenFor(key string) string { return ".rdma_server-" + key + ".part" }

// deliveredFor returns the hidden name of a complete file that was given a name.
func deliveredFor(key, name string) string {
	return hiddenFor(fmt.Sprintf("%s-%x", key, sha256.Sum256([]byte(name))))
}
