package dinowm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"

	"scalewm/dataset/rng"
)

// Random is the geometry with a backbone of random weights, the same for every seed of
// a training, so that features of frames are the same too. Its SHA256 is that of the
// geometry that the weights follow from, and so of no file.
func (c Config) Random() Config {
	b, err := json.Marshal(c.Backbone)
	if err != nil {
		panic("dinowm: a geometry of numbers: " + err.Error())
	}
	sum := sha256.Sum256(append([]byte("random backbone "), b...))
	c.SHA256, c.Weights = hex.EncodeToString(sum[:]), nil
	return c
}

// randomStream draws a tensor of such a backbone.
func randomStream(name string) *rand.Rand { return rng.Stream("random backbone", name) }
