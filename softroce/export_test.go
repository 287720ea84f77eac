package softroce

import "github.com/rawverbs/rawverbs/verbs"

// Led counts the times that a waiting goroutine has received for a device.
func Led(dev *verbs.Device) (n uint64) {
	if r := dev.Provider().(*device).lively.Load(); r != nil {
		n = r.led.Load()
	}
	return n
}
