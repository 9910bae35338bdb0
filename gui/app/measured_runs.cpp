#include "gui/app/measured_runs.hpp"

#include <QDateTime>
#include <QDir>
#include <QDirIterator>
#include <QRegularExpression>
#include <QSettings>
#include <QStandardPaths>

#include <algorithm>

namespace orrery {
namespace {

constexpr double gigabyte = 1e9;
constexpr double usual_limit_gb = 2;

qint64 size_of(const QString& folder) {
    qint64 bytes = 0;
    for (QDirIterator it(folder, QDir::Files, QDirIterator::Subdirectories); it.hasNext();) {
        it.next();
        bytes += it.fileInfo().size();
    }
    return bytes;
}

} // namespace

MeasuredRuns::MeasuredRuns()
    : folder_(QStandardPaths::writableLocation(QStandardPaths::AppDataLocation) + QStringLiteral("/measured")),
      limit_(static_cast<qint64>(gigabyte * QSettings().value(QStringLiteral("measured/limit_gb"), usual_limit_gb).toDouble())) {}

QString MeasuredRuns::fileName(const QString& run) {
    static const QRegularExpression other(QStringLiteral("[^\\p{L}\\p{N}._-]+"));
    const QString name = QString(run).replace(other, QStringLiteral("-")).left(60);
    return name.isEmpty() || name.startsWith(QLatin1Char('.')) ? QStringLiteral("run") + name : name;
}

// Folders are named so that their order is that of time.
QString MeasuredRuns::add(const QString& name) const {
    const QString when = QDateTime::currentDateTime().toString(QStringLiteral("yyyy-MM-dd-hhmmss-zzz"));
    const QString path = folder_ + QLatin1Char('/') + when + QLatin1Char('-') + fileName(name);
    return QDir().mkpath(path) ? path : QString{};
}

QStringList MeasuredRuns::folders() const {
    QStringList out;
    for (const QString& name : QDir(folder_).entryList(QDir::Dirs | QDir::NoDotAndDotDot, QDir::Name))
        out << folder_ + QLatin1Char('/') + name;
    return out;
}

bool MeasuredRuns::holds(const QString& path) const { return path.startsWith(folder_ + QLatin1Char('/')); }

int MeasuredRuns::count() const { return static_cast<int>(folders().size()); }

qint64 MeasuredRuns::size() const { return size_of(folder_); }

int MeasuredRuns::trim(const QStringList& keep) const {
    qint64 all = size();
    int gone = 0;
    for (const QString& folder : folders()) {
        if (all <= limit_) break;
        const bool used =
            std::any_of(keep.begin(), keep.end(), [&](const QString& file) { return file.startsWith(folder + QLatin1Char('/')); });
        if (used) continue;
        const qint64 bytes = size_of(folder);
        if (!QDir(folder).removeRecursively()) continue;
        all -= bytes;
        ++gone;
    }
    return gone;
}

void MeasuredRuns::clear() const {
    for (const QString& folder : folders()) QDir(folder).removeRecursively();
}

} // namespace orrery
