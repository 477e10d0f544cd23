// Singular values of matrices of any size. They are compiled once, because each source that did so took 7 s more.
#pragma once

#include <Eigen/Dense>

extern template class Eigen::JacobiSVD<Eigen::MatrixXd>;
