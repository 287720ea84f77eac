// What server and workers share. A round has four steps:
//
//	server                                    worker
//	  1. SEND_WITH_IMM, imm = round      ──▶    the weights of this round are there
//	  2.                                 ◀──    READ of the weights
//	  3.                                 ◀──    WRITE_WITH_IMM of gradient and loss, imm = round
//	  4. all have written: average, move the weights
//
// Only steps 1 and 3 are noticed by the other end's program. The READ is answered
// by the server's device alone; the program must therefore leave the weights alone
// from step 1 until all gradients are there, and so it does.

package main

import (
	"encoding/binary"
	"math"
)

const (
	job        = "param-server"
	regionName = "parameters"

	finished = 0 // in place of a round's number: there are no more
)

// The region that the server has for each worker, in bytes. Every connection has
// its own protection domain, and an rkey is good in one only; so each worker gets
// a region of its own, with a copy of the weights.
const (
	atNumber   = 0                      // the worker's number, from 1
	atSeed     = atNumber + 8           // of the data
	atWeights  = atSeed + 8             // up to here the server writes and the worker READs
	atGradient = atWeights + 8*weights  // from here the worker WRITEs and the server reads
	atLoss     = atGradient + 8*weights // of the worker's batch
	regionSize = atLoss + 8
)

// region is such a region's memory, here or as a worker's copy of it. Its numbers
// are little-endian, so that both ends may be of any kind.
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
