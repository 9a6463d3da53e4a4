package rng

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"strconv"
)

// Key returns the 64-bit key of a stream: the first 8 bytes (little-endian) of the
// SHA-256 of purpose and ids. Each part is hashed with its kind and its length, so
// that ("a", "bc") and ("ab", "c") are different names. Ids are strings or integers
// of any width; equal integers of different widths are the same id. Key panics on an
// id of another type.
//
// Use each purpose for one thing only. In particular, numbers drawn by [Stream] and
// by [Normal] from the same key come from the same Philox blocks and are not
// independent.
func Key(purpose string, ids ...any) uint64 {
	b := appendString(make([]byte, 0, 64), purpose)
	for _, id := range ids {
		b = appendID(b, id)
	}
	sum := sha256.Sum256(b)
	return binary.LittleEndian.Uint64(sum[:])
}

// appendID appends the canonical bytes of one id. All integers that fit into an int64
// share one form, so that changing the Go type of an id does not change the stream.
// Larger uint64 values have a tag of their own, since as int64 they would coincide
// with negative ids.
func appendID(b []byte, id any) []byte {
	switch v := id.(type) {
	case string:
		return appendString(b, v)
	case int:
		return appendInt(b, int64(v))
	case int32:
		return appendInt(b, int64(v))
	case int64:
		return appendInt(b, v)
	case uint32:
		return appendInt(b, int64(v))
	case uint64:
		if v > math.MaxInt64 {
			return binary.LittleEndian.AppendUint64(append(b, 'u'), v)
		}
		return appendInt(b, int64(v))
	}
	panic(fmt.Sprintf("rng: id %v of type %T is neither a string nor an integer", id, id))
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(append(b, 's'), uint64(len(s)))
	return append(b, s...)
}

func appendInt(b []byte, v int64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, 'i'), uint64(v))
}

// Stream returns the random stream of a purpose and ids, positioned at its start. The
// returned generator must not be used by several goroutines at once.
func Stream(purpose string, ids ...any) *rand.Rand {
	return rand.New(&source{key: Key(purpose, ids...)})
}

// source is a rand.Source over the consecutive blocks of a key. A block has 128 bits
// and Uint64 returns 64, so the second half waits in spare.
type source struct {
	key, block uint64
	spare      uint64
	hasSpare   bool
}

// Uint64 implements rand.Source.
func (s *source) Uint64() uint64 {
	if s.hasSpare {
		s.hasSpare = false
		return s.spare
	}
	x := Philox(s.key, s.block)
	s.block++
	s.spare, s.hasSpare = uint64(x[2])|uint64(x[3])<<32, true
	return uint64(x[0]) | uint64(x[1])<<32
}

// Normal returns standard normal number i of the stream key, by the Box-Muller
// transform of the words of block i/4. The word pair (0,1) gives numbers 0 and 1 of a
// block and the pair (2,3) gives numbers 2 and 3; the even one of a pair is the
// cosine.
//
// Only the top 24 bits of a word are used, because these are exact in float32: a
// device that computes in float32 starts from the same uniforms, and its normals
// differ from these only by rounding. |Normal| is below 5.9.
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

// unit24 maps the top 24 bits of a word to the midpoint of one of 2^24 equal steps of
// the open interval (0, 1). The midpoint excludes 0, whose logarithm is infinite.
func unit24(x uint32) float64 { return (float64(x>>8) + 0.5) * 0x1p-24 }

// PlannerSeed returns the planner's seed for one episode in the published protocol:
// CRC-32 of "<index of the episode in its set>|<tier>" without its top bit
// (docs/sources.md#planner-seeds). Neither the model nor the set is hashed. Every arm
// therefore plans with the same noise, which pairs the arms; but equal indices in
// different sets share their noise too.
func PlannerSeed(index int, tier string) uint32 {
	return crc32.ChecksumIEEE([]byte(strconv.Itoa(index)+"|"+tier)) & 0x7FFFFFFF
}
