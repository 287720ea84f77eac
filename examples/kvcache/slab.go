// The memory that server and clients share: a slab of slots. The server writes slots while
// clients READ them, so a reader must notice a slot that changed under it.

package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"unsafe"
)

// A slot, in the byte order of both hosts (little-endian):
//
//	 0  u64  version: odd while the server writes; 0 means that the slot was never written
//	 8  u32  CRC-32 of the version and everything behind this field
//	12  u16  length of the key
//	14  u16  length of the value
//	16       key, value
const (
	slotSize = 256
	slotHead = 16
	maxPair  = slotSize - slotHead // bytes of key and value together
)

var errPair = fmt.Errorf("a pair must have a key, and at most %d bytes", maxPair)

// errTorn means that the server wrote the slot while it was read: read it again.
var errTorn = errors.New("the slot changed while it was read")

// slab is the server's memory: one slot for each value of the hash. A key that falls on the
// slot of another replaces it, as in any cache.
type slab struct {
	memory []byte // aligned to 8 bytes
	locks  [64]sync.Mutex
}

// slotOf returns the index of a key's slot among n. Both ends compute it.
func slotOf(key []byte, n int) int { return int(crc32.ChecksumIEEE(key) % uint32(n)) }

// put stores a pair.
func (s *slab) put(key, value []byte) error {
	if len(key) == 0 || len(key)+len(value) > maxPair {
		return errPair
	}
	index := slotOf(key, len(s.memory)/slotSize)
	slot := s.memory[index*slotSize:][:slotSize]
	lock := &s.locks[index%len(s.locks)]
	lock.Lock()
	defer lock.Unlock()
	version := (*uint64)(unsafe.Pointer(&slot[0]))
	v := atomic.AddUint64(version, 1) // odd: readers turn away
	n := slotHead + copy(slot[slotHead:], key)
	n += copy(slot[n:], value)
	binary.LittleEndian.PutUint16(slot[12:], uint16(len(key)))
	binary.LittleEndian.PutUint16(slot[14:], uint16(len(value)))
	binary.LittleEndian.PutUint32(slot[8:], checksum(v+1, slot[12:n]))
	atomic.StoreUint64(version, v+1)
	return nil
}

// find returns the value of key in a copy of its slot, false if the slot holds no such key,
// and errTorn if the copy is not of one moment. The version alone cannot tell: a READ may
// fetch the bytes of a slot in any order.
func find(slot, key []byte) (value []byte, ok bool, err error) {
	version := binary.LittleEndian.Uint64(slot)
	k, v := int(binary.LittleEndian.Uint16(slot[12:])), int(binary.LittleEndian.Uint16(slot[14:]))
	switch {
	case version == 0:
		return nil, false, nil
	case version%2 == 1, k+v > maxPair, binary.LittleEndian.Uint32(slot[8:]) != checksum(version, slot[12:slotHead+k+v]):
		return nil, false, errTorn
	case string(slot[slotHead:slotHead+k]) != string(key):
		return nil, false, nil
	}
	return slot[slotHead+k : slotHead+k+v], true, nil
}

func checksum(version uint64, rest []byte) uint32 {
	var head [8]byte
	binary.LittleEndian.PutUint64(head[:], version)
	return crc32.Update(crc32.ChecksumIEEE(head[:]), crc32.IEEETable, rest)
}
