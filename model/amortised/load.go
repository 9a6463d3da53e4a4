package amortised

import (
	"errors"
	"strings"

	"scalewm/dataset/tensorfile"
	"scalewm/model"
)

// init registers the families. A mark is the name of a tensor that every policy of the
// family has, and that no encoder has.
func init() {
	register(model.FamilyGCIDM, "horizon_embed.0.weight", decode[GCIDM], func() model.Section { return &gcidm{} })
	register(model.FamilyGCBC, "pos_embedding_goal", decode[GCBC], func() model.Section { return &gcbc{} })
}

// register registers a family, whose name is also that of its table and its method.
func register(name, mark string, decode func([]byte) (model.Geometry, error), empty func() model.Section) {
	model.Register(model.Family{Name: name, Section: name, New: empty, Decode: decode, Method: name, Mark: policyPrefix + mark, Root: policyPrefix + mark,
		Rename: ourName, Transformers5: transformers5, Describe: describe})
}

// gcidm and gcbc are the families' tables in a preset: the network and its schedule.
type (
	gcidm struct {
		GCIDM
		model.Schedule
	}
	gcbc struct {
		GCBC
		model.Schedule
	}
)

// Geometry implements model.Section.
func (s *gcidm) Geometry(_ model.Method, actionDim int, backbone any) (model.Geometry, error) {
	return on(s.GCIDM, actionDim, backbone)
}
func (s *gcbc) Geometry(_ model.Method, actionDim int, backbone any) (model.Geometry, error) {
	return on(s.GCBC, actionDim, backbone)
}

// Training implements model.Section.
func (s *gcidm) Training() model.Schedule { return s.Schedule }
func (s *gcbc) Training() model.Schedule  { return s.Schedule }

// With implements model.Section.
func (s *gcidm) With(t model.Schedule) model.Section { return &gcidm{s.GCIDM, t} }
func (s *gcbc) With(t model.Schedule) model.Section  { return &gcbc{s.GCBC, t} }

// describe implements model.Family.Describe.
func describe([]byte, *tensorfile.File) (model.Geometry, error) {
	return nil, errors.New("it belongs to a policy, whose sidecar weights.json is missing (hint: `scalewm weights convert` writes it next to the tensors; keep both)")
}

// ourName implements model.Family.Rename. It drops the masks.
func ourName(name string) string {
	if strings.HasPrefix(name, policyPrefix) && strings.HasSuffix(name, maskSuffix) {
		return ""
	}
	return encoderName(name, func(f model.Family) func(string) string { return f.Rename })
}

// transformers5 implements model.Family.Transformers5.
func transformers5(name string) string {
	return encoderName(name, func(f model.Family) func(string) string { return f.Transformers5 })
}

// encoderName applies a function of the encoder's family to the name of one of its
// tensors. The name does not say which family that is; the functions of each family leave
// the names of others unchanged.
func encoderName(name string, of func(model.Family) func(string) string) string {
	rest, ok := strings.CutPrefix(name, encoderPrefix)
	if !ok {
		return name
	}
	for _, f := range model.Families() {
		if rename := of(f); !isPolicy(f.Name) && rename != nil {
			rest = rename(rest)
		}
	}
	if rest == "" {
		return ""
	}
	return encoderPrefix + rest
}
