// Figures of measurements, as they are logged.

package kit

// Rounded keeps three decimals of a figure that is logged.
func Rounded(x float64) float64 { return float64(int64(x*1000+0.5)) / 1000 }
