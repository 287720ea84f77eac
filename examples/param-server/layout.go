// The memory that server and workers share. A round has four steps:
//
//	server                                    worker
//	  1. SEND_WITH_IMM, imm = round      ──▶    the weights of this round are there
//	  2.                                 ◀──    READ of the weights
//	  3.                                 ◀──    WRITE_WITH_IMM of gradient and loss, imm = round
//	  4. all have written: average, move the weights
//
// The other end's program notices only steps 1 and 3. The server's device answers the READ
// without the server's program. So the program must not change the weights between step 1 and
// the last gradient.

package main

import (
	"encoding/binary"
	"math"
)

const (
	job        = "param-server"
	regionName = "parameters"

	finished = 0 // instead of a round's number: the training is over
)

// The server's region for each worker, in bytes. Every connection has its own protection domain,
// and an rkey works in one domain only. So each worker gets a region of its own, with a copy of
// the weights.
const (
	atNumber   = 0                      // the worker's number, from 1
	atSeed     = atNumber + 8           // seed of the data
	atWeights  = atSeed + 8             // the fields up to here: written by the server, READ by the worker
	atGradient = atWeights + 8*weights  // the fields from here on: WRITTEN by the worker, read by the server
	atLoss     = atGradient + 8*weights // loss of the worker's batch
	regionSize = atLoss + 8
)

// region is the memory of such a region at the server, or a worker's copy. Its numbers are
// little-endian on every host.
type region []byte

func (r region) number(at int) uint64       { return binary.LittleEndian.Uint64(r[at:]) }
func (r region) setNumber(at int, n uint64) { binary.LittleEndian.PutUint64(r[at:], n) }
func (r region) float(at int) float64       { return math.Float64frombits(r.number(at)) }
func (r region) setFloat(at int, f float64) { r.setNumber(at, math.Float64bits(f)) }
func (r region) setVector(at int, v *vector) {
	for i, f := range v {
		r.setFloat(at+8*i, f)
	}
}

func (r region) vector(at int) (v vector) {
	for i := range v {
		v[i] = r.float(at + 8*i)
	}
	return v
}
