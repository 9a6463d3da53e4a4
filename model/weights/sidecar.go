package weights

import "encoding/json"

// Sidecar stands beside a checkpoint and says what it is. Everything in it is
// determined by the training's spec, so that two equal trainings write equal
// bytes. Its texts are names (safefile.CheckNames).
type Sidecar struct {
	Kind   string          `json:"kind"`   // lewm, or Published
	Schema int             `json:"schema"` // model.Schema
	ID     string          `json:"id"`     // cell.ID of the training's spec
	Method string          `json:"method"` // lewm, scale, aux, untrained
	Task   string          `json:"task"`
	Config json.RawMessage `json:"config"` // geometry of the kind
	Train  json.RawMessage `json:"train"`  // recipe
	Step   int             `json:"step"`
	// Checkpoint says which weights of the training these are: last, best (by
	// validation, ValLoss) or step (of a resume point).
	Checkpoint string  `json:"checkpoint,omitempty"`
	ValLoss    float64 `json:"val_loss,omitempty"`
	Seed       int64   `json:"seed"`
	Protocol   string  `json:"protocol"`           // paper or strict
	Device     string  `json:"device" text:"free"` // kind it was trained on: backend/ISA/precision

	ActionMean []float64 `json:"action_mean"` // the scaler of the actions, per raw dimension (ddof 0)
	ActionStd  []float64 `json:"action_std"`
	QName      string    `json:"q_name,omitempty"`
	QMean      []float64 `json:"q_mean,omitempty"`
	QStd       []float64 `json:"q_std,omitempty"` // ddof 1

	// Backbone is the SHA-256 of the weights of a frozen encoder, "" where the encoder learns.
	Backbone string `json:"backbone,omitempty"`

	Data  string `json:"data"`              // fingerprint of the data set
	Split string `json:"split" text:"free"` // how clips were held out

	SHA256 string `json:"sha256"` // of weights.safetensors
	// Files are SHA-256 of what a finished training left beside its last weights.
	Files map[string]string `json:"files,omitempty"`
	// Digest is the SHA-256 of the sidecar's own bytes with an empty digest, "" in one by other hands or older versions.
	Digest string `json:"digest"`
}
