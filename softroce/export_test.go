package softroce

import "github.com/rawverbs/rawverbs/verbs"

// Led returns how often a waiting goroutine has led on a device.
func Led(dev *verbs.Device) (n uint64) {
	if r := dev.Provider().(*device).lastWoke.Load(); r != nil {
		n = r.led.Load()
	}
	return n
}

// SetTraffic makes the device consider its traffic light or heavy.
func SetTraffic(d *verbs.Device, light bool) {
	rounds := int32(0)
	if light {
		rounds = lightEnough
	}
	d.Provider().(*device).traffic.lightRounds.Store(rounds)
}

// Sending makes the device behave as if a goroutine had taken packets from the engine but not
// sent them yet. Calling sent ends that.
func Sending(dev *verbs.Device) (sent func()) {
	d := dev.Provider().(*device)
	d.sending.RLock()
	return d.sending.RUnlock
}

// Receive makes the caller receive on the port of dev that last woke a goroutine. receive waits for
// packets and gives them to the engine, and leaves their answers. Calling stop ends that.
func Receive(dev *verbs.Device) (receive func(), stop func()) {
	d := dev.Provider().(*device)
	r := d.lastWoke.Load()
	r.asked.Store(true)
	r.p.link.Interrupt()
	r.mu.Lock()
	r.asked.Store(false)
	return func() { _ = r.take() }, func() {
		r.mu.Unlock()
		r.takeOver()
	}
}
