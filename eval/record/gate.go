package record

// GatesDir is the name of the folder that holds a Gate for each task, <task>.json.
const GatesDir = "gates"

// Gate is the verdict of comparing frames that were drawn here with the stored
// ones of a data set (docs/sources.md#render-gate). It depends on the machine that draws.
type Gate struct {
	Task  string  `json:"task"`
	Data  string  `json:"data"`  // fingerprint of the data set
	Error float64 `json:"error"` // mean absolute difference, levels a byte
	Limit float64 `json:"limit"`
}

// Passed says whether the frames are those that were recorded.
func (g Gate) Passed() bool { return g.Error <= g.Limit }
