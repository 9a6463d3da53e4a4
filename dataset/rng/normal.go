package rng

import "math"

// Normal is standard normal number i of the stream key, by Box-Muller on the
// words of block i/4: the pair (0,1) gives the numbers 0 and 1 of a block, the
// pair (2,3) the numbers 2 and 3, the even one with the cosine. Only the top 24
// bits of a word are used, so that a device computing in float32 sees exactly
// the same uniforms. |Normal| is below 5.9.
func Normal(key, i uint64) float64 {
	x := Philox(key, i/4)
	p := i % 4 / 2
	u1, u2 := unit24(x[2*p]), unit24(x[2*p+1])
	r := math.Sqrt(-2 * math.Log(u1))
	sin, cos := math.Sincos(2 * math.Pi * u2)
	if i%2 == 0 {
		return r * cos
	}
	return r * sin
}

// unit24 maps the top 24 bits of a word to the middle of one of 2^24 equal
// steps of the open interval (0, 1).
func unit24(x uint32) float64 { return (float64(x>>8) + 0.5) * 0x1p-24 }
