// FLUSH: a request that makes earlier writes visible or durable at the peer.

package verbs

// Flush says what an [OpFlush] request flushes. RemoteAddr and RKey of the request name the peer's
// memory. The zero value has no Type; posting it is EINVAL.
type Flush struct {
	Length uint32     // bytes from RemoteAddr on; ignored for FlushMR
	Type   FlushType  // where the data must arrive
	Level  FlushLevel // a range of bytes, or the whole region
}

// FlushType is a set of placement types: where the data must be before a FLUSH completes (enum
// ib_placement_type of the kernel).
type FlushType uint8

// The placement types. For each of them the peer's region and the peer's queue pair need the
// access flag of the same name.
const (
	FlushGlobal     FlushType = 1 << 0 // every CPU and device of the peer sees the data: AccessFlushGlobal
	FlushPersistent FlushType = 1 << 1 // the data survives a loss of power: AccessFlushPersistent
)

// String lists the types by their C names. No types give "0".
func (t FlushType) String() string { return cFlags("IBV_FLUSH_", uint32(t), "GLOBAL", "PERSISTENT") }

// FlushLevel is the selectivity of a FLUSH: which memory is flushed (enum ib_selectivity_level of
// the kernel).
type FlushLevel uint8

// The selectivity levels.
const (
	FlushRange FlushLevel = 0 // Flush.Length bytes from RemoteAddr on
	FlushMR    FlushLevel = 1 // the whole region of RKey; RemoteAddr is ignored
)

// String returns the C name: "IBV_FLUSH_RANGE".
func (l FlushLevel) String() string {
	return cName("IBV_FLUSH_", "selectivity_level", uint32(l), "RANGE", "MR")
}
