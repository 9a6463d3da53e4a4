

import numpy as np
import scipy
from scipy.spatial.distance import pdist
from scipy.stats import pearsonr, spearmanr

Z = np.fromfile(os.path.join(SPEC["dir"], "z"), np.float32).reshape(SPEC["samples"], -1)
Q = np.fromfile(os.path.join(SPEC["dir"], "q")).reshape(SPEC["samples"], -1)


def alignment():
    q = (Q - Q.mean(0)) / Q.std(0)
    dz, dq = pdist(Z, "sqeuclidean"), pdist(q, "sqeuclidean")
    spearmanr(dz, dq), pearsonr(dz, dq)


serve({"alignment": {"scipy": alignment}}, version=f"scipy {scipy.__version__}, numpy {np.__version__}")
