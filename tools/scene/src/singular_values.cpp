#include "singular_values.h"

template class Eigen::JacobiSVD<Eigen::MatrixXd>;
