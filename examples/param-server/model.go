// The model: a linear regression, y = w·x + b. The data is made from known weights, to check whether
// learning finds them.

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

// vector has the weights or their gradient.
type vector [weights]float64

// knownWeights returns the weights that the data is made from.
func knownWeights(seed uint64) (w vector) {
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range w {
		w[i] = 4*r.Float64() - 2
	}
	return w
}

// predict returns y for x.
func (w *vector) predict(x *[features]float64) float64 {
	y := w[features]
	for i := range x {
		y += w[i] * x[i]
	}
	return y
}

// data is one worker's part of the data. Only that worker has it.
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

// gradient returns the loss, which is half the mean squared error over a batch, and its gradient.
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

// add adds a multiple of another vector.
func (w *vector) add(times float64, other *vector) {
	for i := range w {
		w[i] += times * other[i]
	}
}

// distance returns the largest difference between two weights of the same index.
func (w *vector) distance(to *vector) (far float64) {
	for i := range w {
		far = math.Max(far, math.Abs(w[i]-to[i]))
	}
	return far
}
