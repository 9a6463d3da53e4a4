package rng

import (
	"hash/crc32"
	"strconv"
)

// PlannerSeed is the planner's seed for one episode in the published protocol:
// CRC-32 of "<index of the episode in its set>|<tier>" without its top bit
// (docs/sources.md#planner-seeds). Neither the model nor the set enters, so every arm
// sees the same noise, and so do equal indices of different sets.
func PlannerSeed(index int, tier string) uint32 {
	return crc32.ChecksumIEEE([]byte(strconv.Itoa(index)+"|"+tier)) & 0x7FFFFFFF
}
