package softroce

import "github.com/rawverbs/rawverbs/verbs"

// Led counts the times that a waiting goroutine has received for a device.
func Led(dev *verbs.Device) (n uint64) {
	if r := dev.Provider().(*device).lastWoke.Load(); r != nil {
		n = r.led.Load()
	}
	return n
}

// SetTraffic makes the device take its traffic for light or heavy.
func SetTraffic(d *verbs.Device, light bool) {
	rounds := int32(0)
	if light {
		rounds = lightEnough
	}
	d.Provider().(*device).traffic.lightRounds.Store(rounds)
}

// Sending is as if somebody took packets from the engine and had yet to send them,
// until sent is called.
func Sending(dev *verbs.Device) (sent func()) {
	d := dev.Provider().(*device)
	d.sending.RLock()
	return d.sending.RUnlock
}
