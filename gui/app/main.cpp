// simgui: the desktop application. Pictures (--screenshot) need no display.
#include "gui/app/language.hpp"
#include "gui/app/main_window.hpp"
#include "gui/app/options.hpp"

#include <QApplication>
#include <QPixmap>
#include <QThreadPool>
#include <QTimer>

#include <cstdio>

namespace {

using orrery::MainWindow;
using orrery::Options;
using orrery::ParsedOptions;

// The picture once nothing is being worked on and what has come was drawn. Fails where a file could not be read, or the picture written.
void take_picture(MainWindow& window, const Options& options) {
    for (int row = 0; row < window.problems().rowCount(); ++row) {
        const orrery::ProblemEntry& p = window.problems().entry(row);
        std::fprintf(stderr, "simgui: %s: %s\n", qPrintable(p.source), qPrintable(p.what));
    }
    const bool written = window.grab().save(options.screenshot);
    if (!written) std::fprintf(stderr, "simgui: error: %s could not be written\n", qPrintable(options.screenshot));
    QApplication::exit(written && window.problems().rowCount() == 0 ? 0 : 1);
}

bool has_display() {
    return !qEnvironmentVariableIsEmpty("DISPLAY") || !qEnvironmentVariableIsEmpty("WAYLAND_DISPLAY") ||
           qEnvironmentVariableIsSet("QT_QPA_PLATFORM");
}

int run(const Options& options) {
    MainWindow window(options);
    if (!options.fresh) window.restoreSession();
    window.show();
    window.open(options.files);
    if (!options.dock.isEmpty()) window.showView(options.dock);
    const bool picture = !options.screenshot.isEmpty();
    const auto ready = [&window, &options, picture] {
        window.apply(options);
        if (!picture) return;
        // Views count in the background a moment after they are shown: what they find is to be in the picture.
        QTimer::singleShot(400, &window, [&window, &options] {
            QThreadPool::globalInstance()->waitForDone();
            QTimer::singleShot(100, &window, [&window, &options] { take_picture(window, options); });
        });
    };
    if (window.idle())
        QTimer::singleShot(0, &window, ready);
    else
        QObject::connect(&window, &MainWindow::becameIdle, &window, ready,
                         Qt::ConnectionType(Qt::QueuedConnection | Qt::SingleShotConnection));
    return QApplication::exec();
}

// The language first: what is said of a wrong command line is said in it. Without a display there is no QApplication to ask.
ParsedOptions read_command_line(int argc, char** argv) {
    const QCoreApplication core(argc, argv);
    const QStringList arguments = QCoreApplication::arguments();
    const qsizetype at = arguments.indexOf(QStringLiteral("--language"));
    const QString wanted = at >= 0 ? arguments.value(at + 1) : QString{};
    const orrery::Language language(orrery::languages().contains(wanted) ? wanted : QString{});
    return orrery::parse_options(arguments, MainWindow::viewNames());
}

} // namespace

int main(int argc, char** argv) {
    const ParsedOptions parsed = read_command_line(argc, argv);
    if (parsed.answer) {
        std::fputs(parsed.answer->text.toLocal8Bit().constData(), parsed.answer->code == 0 ? stdout : stderr);
        return parsed.answer->code;
    }
    if (!has_display()) {
        if (parsed.options.screenshot.isEmpty()) {
            std::fputs("simgui: error: there is no display (DISPLAY, WAYLAND_DISPLAY): use --screenshot FILE for a picture\n", stderr);
            return 1;
        }
        qputenv("QT_QPA_PLATFORM", "offscreen");
    }
    QApplication::setHighDpiScaleFactorRoundingPolicy(Qt::HighDpiScaleFactorRoundingPolicy::PassThrough);
    const QApplication application(argc, argv);
    const orrery::Language language(parsed.options.language);
    QApplication::setOrganizationName(QStringLiteral("Orrery"));
    QApplication::setApplicationName(QStringLiteral("simgui"));
    QApplication::setApplicationVersion(QStringLiteral(ORRERY_VERSION));
    return run(parsed.options);
}
