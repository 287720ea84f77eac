package softroce

import (
	"math/rand/v2"

	"github.com/rawverbs/rawverbs/softroce/internal/link"
	"github.com/rawverbs/rawverbs/verbs"
)

// lossy loses received packets.
type lossy struct {
	link.Link
	probability float64
}

func (l lossy) Receive(in *link.Ingress) error {
	err := l.Link.Receive(in)
	kept := in.Packets[:0]
	for _, p := range in.Packets {
		if rand.Float64() >= l.probability {
			kept = append(kept, p)
		}
	}
	in.Packets = kept
	return err
}

// Lose makes an attended device without traffic lose received packets.
func Lose(dev *verbs.Device, probability float64) {
	for _, r := range verbs.ProviderOf(dev).(*device).receivers {
		r.lock()
		r.link = lossy{r.link, probability}
		r.unlock()
	}
}
