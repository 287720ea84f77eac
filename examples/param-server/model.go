// What is learned: a linear regression, y = w·x + b, with data made from known
// weights, so that it can be told whether learning found them.

package main

import (
	"math"
	"math/rand/v2"
)

const (
	features = 8
	weights  = features + 1 // the last is b
	samples  = 256          // of each worker
	batch    = 64           // of them, used in a round
	noise    = 0.01         // of each y
)

// vector is a set of weights, or a gradient by them.
type vector [weights]float64

// knownWeights are those that the data is made from.
func knownWeights(seed uint64) (w vector) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range w {
		w[i] = 4*r.Float64() - 2
	}
	return w
}

// predict is y for x.
func (w *vector) predict(x *[features]float64) float64 {
	y := w[features]
	for i := range x {
		y += w[i] * x[i]
	}
	return y
}

// data is one worker's share; no other worker has it, and the server none.
type data struct {
	x    [samples][features]float64
	y    [samples]float64
	pick *rand.Rand // of batches
}

func newData(seed uint64, worker int) *data {
	d := &data{pick: rand.New(rand.NewPCG(seed, uint64(worker)))}
	known := knownWeights(seed)
	for i := range d.x {
		for j := range d.x[i] {
			d.x[i][j] = d.pick.NormFloat64()
		}
		d.y[i] = known.predict(&d.x[i]) + noise*d.pick.NormFloat64()
	}
	return d
}

// gradient is that of the loss, half the mean squared error over a batch, by the
// weights.
func (d *data) gradient(w *vector) (g vector, loss float64) {
	for range batch {
		i := d.pick.IntN(samples)
		off := w.predict(&d.x[i]) - d.y[i]
		loss += off * off / 2 / batch
		for j, x := range d.x[i] {
			g[j] += off * x / batch
		}
		g[features] += off / batch
	}
	return g, loss
}

// add adds another vector, so many times.
func (w *vector) add(times float64, other *vector) {
	for i := range w {
		w[i] += times * other[i]
	}
}

// distance is how far the farthest weight is from another vector's.
func (w *vector) distance(to *vector) (far float64) {
	for i := range w {
		far = math.Max(far, math.Abs(w[i]-to[i]))
	}
	return far
}
