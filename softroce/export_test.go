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
