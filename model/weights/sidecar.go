package weights

import "encoding/json"

// Sidecar describes a checkpoint, in a JSON file next to the tensors. The training's
// spec determines all of its contents, so that equal trainings write equal bytes.
// Texts without the tag "free" must be valid names (safefile.CheckNames).
type Sidecar struct {
	Kind   string          `json:"kind"`   // name of a family, or Published
	Schema int             `json:"schema"` // model.Schema
	ID     string          `json:"id"`     // cell.ID of the training's spec
	Method string          `json:"method"` // name in model.Methods
	Task   string          `json:"task"`
	Config json.RawMessage `json:"config"` // geometry (model.Geometry)
	Train  json.RawMessage `json:"train"`  // recipe (train.Config)
	Step   int             `json:"step"`   // optimiser steps before these weights
	// Checkpoint says which weights of the run these are: "last", "best" (of the lowest
	// validation loss, ValLoss) or "step" (of a resume point).
	Checkpoint string  `json:"checkpoint,omitempty"`
	ValLoss    float64 `json:"val_loss,omitempty"`
	Seed       int64   `json:"seed"`
	Protocol   string  `json:"protocol"`           // paper or strict
	Device     string  `json:"device" text:"free"` // device.Kind of the training: backend/ISA/precision

	// Scaler of the actions: mean and standard deviation (divisor N) of each component.
	ActionMean []float64 `json:"action_mean"`
	ActionStd  []float64 `json:"action_std"`
	// Name and scaler (divisor N-1) of the task state, for methods that use it.
	QName string    `json:"q_name,omitempty"`
	QMean []float64 `json:"q_mean,omitempty"`
	QStd  []float64 `json:"q_std,omitempty"`

	// Backbone is the SHA-256 of the weights of a frozen encoder, or "" if the
	// encoder learns. Encoder is the name of the arm whose checkpoint it is, for a policy.
	Backbone string `json:"backbone,omitempty"`
	Encoder  string `json:"encoder,omitempty"`

	Data  string `json:"data"`              // fingerprint of the data set
	Split string `json:"split" text:"free"` // how validation clips were chosen

	// Notes say what was chosen among the contents of a published file and what was left
	// out. Those who read the checkpoint show them to their user.
	Notes []string `json:"notes,omitempty"`

	SHA256 string `json:"sha256"` // of the file of tensors
	// Files maps the other files of a finished run to their SHA-256. Only the sidecar
	// of the last weights has it.
	Files map[string]string `json:"files,omitempty"`
	// Digest is the SHA-256 of the sidecar's own bytes with an empty digest. It may
	// be "" in a sidecar that another program wrote, and is then not checked.
	Digest string `json:"digest"`
}
