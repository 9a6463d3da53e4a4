package cpu

// OtherPairs makes the path avx512bf16 multiply the other way (see Pairs) until the
// returned function is called. Factors must not be packed across the switch.
func OtherPairs() (restore func()) {
	comparePairs.Do(func() {}) // keeps devices that start meanwhile from deciding
	was := Pairs()
	usePairs(!was)
	return func() { usePairs(was) }
}
