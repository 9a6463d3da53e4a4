package dinowm

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"

	"scalewm/dataset/rng"
)

// Random returns the geometry with a backbone of random weights. They depend on the
// backbone's geometry but not on the seed of a training, so that features can be
// shared between trainings. SHA256 is a hash of that geometry, and differs from that
// of any file.
func (c Config) Random() Config {
	b, err := json.Marshal(c.Backbone)
	if err != nil {
		panic("dinowm: a geometry of numbers: " + err.Error())
	}
	sum := sha256.Sum256(append([]byte("random backbone "), b...))
	c.SHA256, c.Weights = hex.EncodeToString(sum[:]), nil
	return c
}

// randomStream returns the stream of a tensor of such a backbone.
func randomStream(name string) *rand.Rand { return rng.Stream("random backbone", name) }
