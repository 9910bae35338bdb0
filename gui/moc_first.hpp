// Qt's meta-object compiler reads this before every file: see CMakeLists.txt.
#pragma once

#include <string>
